// Command manifests renders charts/gangline for those who have no Helm.
//
// Without flags it writes charts/manifests, of the default values: one file for each
// template, and a kustomization for each program. It also writes into the schema of the
// chart's values what the programs' configurations may have. With --check it writes
// nothing and fails if a file in the tree is not what it would write.
//
// With --values FILE --out DIR it renders a site's own values into a folder.
package main
