//! Which names the stores accept: relative paths with `/` that stay inside the folder, and that
//! no file of the store's own can be mistaken for.

/// Log files end so. What a crash left unsynced in them is synced when a folder is opened, and
/// the suffix is how the store knows them.
pub const LOG_SUFFIX: &str = ".log";

/// Marks the temporary files of writers that have not finished.
pub(super) const TEMP_MARK: &str = ".tmp-";

/// What a store keeps in its folder, besides what it keeps for itself: only in these folders are
/// unfinished files looked for.
pub(super) const FOLDERS: [&str; 6] = [
    "manifest",
    "segments",
    "log",
    "backups",
    "set-aside",
    "condemned",
];

/// What a folder of backups holds.
pub const BACKUP_FOLDERS: [&str; 2] = ["backups", "segments"];

/// The file whose lock says that a folder is in use.
pub const LOCK_FILE: &str = "LOCK";

/// The file that says by whom.
pub const OWNER_FILE: &str = "OWNER";

/// What is wrong with `name`, if anything.
pub(super) fn check(name: &str) -> Result<(), &'static str> {
    let part_is_bad = |part: &str| part.is_empty() || part == "." || part == "..";
    if name.split('/').any(part_is_bad) {
        return Err("not a relative path inside the folder");
    }
    if name.contains(['\0', '\\']) {
        return Err("names hold no backslash and no zero byte");
    }
    if name.contains(TEMP_MARK) || is_own(name) {
        return Err("the store keeps this name for itself");
    }
    Ok(())
}

/// What is wrong with `name` as that of a log, if anything.
pub(super) fn check_log(name: &str) -> Result<(), &'static str> {
    check(name)?;
    if name.ends_with(LOG_SUFFIX) {
        Ok(())
    } else {
        Err("the name of a log file must end in .log")
    }
}

/// Whether `name` is that of a writer's unfinished file: `{name}.tmp-{process}-{number}`.
pub(super) fn is_unfinished(name: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name.rsplit_once(TEMP_MARK);
    let numbers = parts.and_then(|(of, numbers)| Some((of, numbers.split_once('-')?)));
    numbers
        .is_some_and(|(of, (process, number))| !of.is_empty() && digits(process) && digits(number))
}

/// Whether the store itself keeps something under `name`.
pub(super) fn is_own(name: &str) -> bool {
    name == LOCK_FILE || name == OWNER_FILE
}

#[cfg(test)]
mod tests;
