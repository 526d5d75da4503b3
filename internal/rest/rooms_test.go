package rest

import "testing"

func TestRooms(t *testing.T) {
	var rooms Rooms[string]
	rung := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	first, leaveFirst := rooms.Enter("a")
	second, leaveSecond := rooms.Enter("a")
	other, leaveOther := rooms.Enter("b")
	leaveFirst()
	rooms.Ring("c")
	if rung(first) || rung(second) || rung(other) {
		t.Error("the bell of another room woke somebody")
	}
	rooms.Ring("a")
	if !rung(second) || rung(other) {
		t.Error("the bell of a room does not wake those in it, and nobody else")
	}
	again, leaveAgain := rooms.Enter("a")
	leaveSecond() // of the room that was emptied
	if rung(again) {
		t.Error("the room was empty when the bell rang")
	}
	rooms.RingAll()
	if !rung(again) || !rung(other) {
		t.Error("somebody sleeps on")
	}
	leaveAgain()
	leaveOther()
	_, leave := rooms.Enter("a")
	if leave(); len(rooms.of) != 0 {
		t.Errorf("%d rooms are left", len(rooms.of))
	}
}
