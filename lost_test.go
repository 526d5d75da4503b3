package stet_test

// lostFunc makes a stet.Lost of a function.
type lostFunc func(cause error)

func (f lostFunc) Lost(cause error) { f(cause) }
