// Package docs checks the documents against the tree: links, code blocks, and the names
// that they use. It needs no network and starts nothing.
package docs
