module github.com/stet-dev/stet

go 1.26.0

require github.com/dunglas/httpsfv v1.1.2

require golang.org/x/time v0.16.0 // indirect
