//! The dependencies that a `Cargo.toml` names. Reads the part of TOML that cargo manifests of this
//! repository use: section headers, `key = value` lines, and values that go on over several lines.

/// The kinds of sections that hold dependencies.
const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// One dependency.
#[derive(Debug, PartialEq)]
pub(super) struct Dependency {
    /// The package's name, also where the manifest renames it.
    pub(super) name: String,
    /// The line, from 1.
    pub(super) line: usize,
}

/// All dependencies of a package, of every kind and target. Those that a workspace merely offers
/// its members are not among them.
pub(super) fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    let mut section = Section::Other;
    let mut open_brackets = 0_isize;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        let continued = open_brackets > 0;
        if !continued && line.starts_with('[') {
            section = Section::of(line);
            if let Section::One(name) = &section {
                found.push(Dependency {
                    name: name.clone(),
                    line: index + 1,
                });
            }
            continue;
        }
        open_brackets += line.matches(['[', '{']).count() as isize;
        open_brackets -= line.matches([']', '}']).count() as isize;
        match &section {
            Section::All if !continued => {
                let key = line.split(['=', '.']).next().unwrap_or_default();
                let name = renamed(line).unwrap_or_else(|| unquoted(key));
                found.push(Dependency {
                    name,
                    line: index + 1,
                });
            }
            Section::All | Section::One(_) => {
                if let (Some(name), Some(last)) = (renamed(line), found.last_mut()) {
                    last.name = name;
                }
            }
            Section::Other => {}
        }
    }
    found
}

enum Section {
    /// `[dependencies]`: each key is one.
    All,
    /// `[dependencies.name]`: one of them.
    One(String),
    Other,
}

impl Section {
    fn of(header: &str) -> Self {
        let header = header.split('#').next().unwrap_or_default().trim();
        let path = header.trim_start_matches('[').trim_end_matches(']').trim();
        if path.starts_with("workspace") {
            return Self::Other;
        }
        for kind in SECTIONS {
            let all = path == kind || path.starts_with("target.") && path.ends_with(&dotted(kind));
            if all {
                return Self::All;
            }
            if let Some(name) = path.strip_prefix(&format!("{kind}.")) {
                return Self::One(unquoted(name));
            }
        }
        // `target.'cfg(unix)'.dependencies.name`
        match path.rsplit_once('.') {
            Some((before, name)) if SECTIONS.iter().any(|kind| before.ends_with(&dotted(kind))) => {
                Self::One(unquoted(name))
            }
            _ => Self::Other,
        }
    }
}

fn dotted(kind: &str) -> String {
    format!(".{kind}")
}

/// The value of `package = "name"` in a line.
fn renamed(line: &str) -> Option<String> {
    let after = line
        .split("package")
        .nth(1)?
        .trim_start()
        .strip_prefix('=')?
        .trim_start();
    Some(after.strip_prefix('"')?.split('"').next()?.to_owned())
}

fn unquoted(key: &str) -> String {
    key.trim().trim_matches(['"', '\'']).to_owned()
}

#[cfg(test)]
mod tests;
