// Package dirs makes the store's own directories, so that those who may write the store
// may write all of it, whatever their umask.
package dirs
