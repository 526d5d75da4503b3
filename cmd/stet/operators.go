package main

import "github.com/stet-dev/stet/cmd/internal/config"

// unguarded is what to say of operators' listeners that ask for no token; empty: they do.
func unguarded(c *config.Admin) string {
	return ifTrue(c.TokenFile == "" && c.TokensFile == "" && c.Listen != "",
		"operators need no token: every user of this machine can do everything; stet token new makes one for "+
			"admin.token_file, and admin.socket with admin.listen \"\" lets in this user alone")
}
