module github.com/stet-dev/stet/cmd

go 1.26

replace github.com/stet-dev/stet => ../

require github.com/stet-dev/stet v0.0.0
