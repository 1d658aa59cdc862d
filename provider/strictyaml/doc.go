// Package strictyaml reads configuration files: YAML for Go types with JSON tags. What
// is not understood is an error, all errors are told at once, and each names the line
// and the path of its field, as in identity[1].user.
//
// It knows nothing of what a configuration means.
package strictyaml
