// Package corpus holds raw requests, and what must become of them, for both faces of the layer: the
// middleware in an http.Server, and the gateway before an upstream. They run over real sockets, as
// go test ./internal/corpus, and there is no way to skip one.
//
// A file in testdata holds cases:
//
//	== C01 websocket-on-post
//	# Anything after a number sign says why, to the reader alone.
//	> POST /v1/pay HTTP/1.1\r\n
//	> Host: api\r\n
//	> Idempotency-Key: "k"\r\n
//	> Connection: Upgrade\r\n
//	> Upgrade: websocket\r\n
//	> Content-Length: 2\r\n
//	> \r\n
//	> {}
//	< 201
//	again
//	< 201 replay
//	kept
//	runs 1
//	saw POST /v1/pay
//	gateway: saw no Upgrade -- it is the gateway that speaks to the upstream
//	stored default k /v1/pay completed
//
// The first line names what the case is of (a finding, a case of the black-box list, or a section
// of an RFC) and the case. A name is unique in its file.
//
//   - > is what the client sends: exactly that, without a line end of its own. Escapes are \r \n
//     \t \s (a space) \\ \xHH, and \{a*300} for 300 times a. What is sent together goes out in one
//     write.
//   - < is an answer: its status, then the code of the problem if it is one, then "replay" if it
//     is one, "head" if it is to a HEAD, "broken" if its body breaks off. Lines "< Name: value",
//     "< has Name" and "< no Name" are about the header of the answer before, "< trailer Name:
//     value" and "< no trailer Name" about its trailer, and "< body" about its body. Interim
//     answers count.
//   - again sends the bytes of the connection before once more, on a new one. connect begins a new
//     connection (connect http/1: of that version), and shut ends the sending half of one.
//   - kept or closed: whether the last connection serves another request.
//   - runs is how often the handler, or the upstream, was reached. saw METHOD TARGET is what it
//     got, byte for byte, one for each run or none at all; saw Name: value and the others are
//     about the run before, and so is saw length N (-1: in chunks).
//   - stored SCOPE KEY PATH STATE is a record, and all of them have to be there; stored nothing.
//   - with sets up the faces: see setup in faces_test.go.
//   - h2 and h2 tls begin a connection of HTTP/2. Then > is a field, its name and its value with
//     one space between, pseudo fields with their colon; > DATA and > TRAILER name what follows
//     the fields. < reset is a stream that was reset.
//   - each $a $b begins a table: its rows follow, each after a bar, and every one is a case.
//   - gateway: or middleware: before a line is for that face alone, and the line ends with -- and
//     the reason.
package corpus
