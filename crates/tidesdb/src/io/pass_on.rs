//! Disks over other disks: they pass on all calls they do not change.

/// Generates methods of a `Disk` that call the disk in a field: `pass_on!(to below: rename remove);` inside
/// its `impl`. `all but open`: for a disk with an `open` of its own.
#[doc(hidden)]
#[macro_export]
macro_rules! pass_on {
    (to $below:ident: all but open) => {
        $crate::pass_on!(
            to $below: rename remove link remove_dir resolve exists list create_dir_all sync_dir lock lock_shared
            free_space clock random
        );
    };
    (to $below:ident: $($method:ident)*) => {
        $($crate::pass_on!(@$method $below);)*
    };
    (@rename $below:ident) => {
        fn rename(&self, from: &std::path::Path, to: &std::path::Path) -> $crate::Result<()> {
            self.$below.rename(from, to)
        }
    };
    (@remove $below:ident) => {
        fn remove(&self, path: &std::path::Path) -> $crate::Result<()> {
            self.$below.remove(path)
        }
    };
    (@link $below:ident) => {
        fn link(&self, from: &std::path::Path, to: &std::path::Path) -> $crate::Result<()> {
            self.$below.link(from, to)
        }
    };
    (@remove_dir $below:ident) => {
        fn remove_dir(&self, dir: &std::path::Path) -> $crate::Result<()> {
            self.$below.remove_dir(dir)
        }
    };
    (@resolve $below:ident) => {
        fn resolve(&self, path: &std::path::Path) -> $crate::Result<std::path::PathBuf> {
            self.$below.resolve(path)
        }
    };
    (@exists $below:ident) => {
        fn exists(&self, path: &std::path::Path) -> $crate::Result<bool> {
            self.$below.exists(path)
        }
    };
    (@list $below:ident) => {
        fn list(&self, dir: &std::path::Path) -> $crate::Result<Vec<String>> {
            self.$below.list(dir)
        }
    };
    (@create_dir_all $below:ident) => {
        fn create_dir_all(&self, dir: &std::path::Path) -> $crate::Result<()> {
            self.$below.create_dir_all(dir)
        }
    };
    (@sync_dir $below:ident) => {
        fn sync_dir(&self, dir: &std::path::Path) -> $crate::Result<()> {
            self.$below.sync_dir(dir)
        }
    };
    (@lock $below:ident) => {
        fn lock(&self, path: &std::path::Path) -> $crate::Result<Box<dyn $crate::internal::io::DirectoryLock>> {
            self.$below.lock(path)
        }
    };
    (@lock_shared $below:ident) => {
        fn lock_shared(&self, path: &std::path::Path) -> $crate::Result<Box<dyn $crate::internal::io::DirectoryLock>> {
            self.$below.lock_shared(path)
        }
    };
    (@free_space $below:ident) => {
        fn free_space(&self, dir: &std::path::Path) -> $crate::Result<u64> {
            self.$below.free_space(dir)
        }
    };
    (@clock $below:ident) => {
        fn clock(&self) -> std::sync::Arc<dyn $crate::internal::host::Clock> {
            self.$below.clock()
        }
    };
    (@random $below:ident) => {
        fn random(&self) -> std::sync::Arc<dyn $crate::internal::host::Random> {
            self.$below.random()
        }
    };
}
