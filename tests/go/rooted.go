package main

import (
	"context"
	"net/url"
	"strings"

	iceio "github.com/apache/iceberg-go/io"
)

// Files of file:/// URIs that lie in a directory of their own: locations in metadata do not depend
// on where it is.
type rooted struct{ root string }

var local = iceio.LocalFS{}

func (r rooted) path(name string) string { return r.root + strings.TrimPrefix(name, "file://") }

func (r rooted) Open(name string) (iceio.File, error)         { return local.Open(r.path(name)) }
func (r rooted) ReadFile(name string) ([]byte, error)         { return local.ReadFile(r.path(name)) }
func (r rooted) Create(name string) (iceio.FileWriter, error) { return local.Create(r.path(name)) }
func (r rooted) Remove(name string) error                     { return local.Remove(r.path(name)) }
func (r rooted) WriteFile(name string, bytes []byte) error {
	return local.WriteFile(r.path(name), bytes)
}

func useRoot(root string) {
	iceio.Unregister("file")
	iceio.Register("file", func(context.Context, *url.URL, map[string]string) (iceio.IO, error) {
		return rooted{root}, nil
	})
}
