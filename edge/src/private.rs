//! Files with secrets in them, and who else can read them.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Returns the mode of a file that everybody on this machine can read, write or execute. A group may: that is how Kubernetes
/// hands a secret to a process that is not root.
pub fn mode_for_everybody(path: &Path) -> io::Result<Option<u32>> {
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o777;
    Ok((mode & 0o007 != 0).then_some(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_for_its_owner_or_a_group() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, open) in
            [(0o600, false), (0o400, false), (0o440, false), (0o640, false), (0o644, true), (0o604, true)]
        {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(mode_for_everybody(file.path()).unwrap(), open.then_some(mode), "{mode:o}");
        }
    }
}
