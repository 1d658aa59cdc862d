// Package podgroup is what gang schedulers' PodGroups have in common: how many
// pods belong to the gang, what they request together, and what has to be
// watched to keep a group up to date.
//
// The groups are unstructured, since the schedulers' modules are large and of
// their types a few fields are used.
package podgroup
