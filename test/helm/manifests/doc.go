// Command manifests renders charts/gangline with its default values into
// charts/manifests, for those who have no Helm: one file for each template, and a
// kustomization for each program. With --check it writes nothing and fails if a
// file in the tree is not what it would write.
package main
