// Package registry speaks to image registries: it finds what a name stands for, and
// copies images into OCI layouts.
//
// It asks a registry's mirrors first, speaks HTTP only to hosts for which that is
// allowed, and checks each digest. It knows no store. The errors it returns are for
// users: they name cause and cure, and no secret.
package registry
