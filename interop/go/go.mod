module hearsay/interop

go 1.24
