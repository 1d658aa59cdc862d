// Package strictyaml reads configuration files: YAML for Go types with JSON tags. What
// is not understood is an error, and errors name the line.
package strictyaml
