//! What others take: each crate as a package, and what comes with it.
//!
//! Not for: advisories, which need a database from the network: `cargo deny check`.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use spdx::{Expression, LicenseReq, ParseMode};
use xshell::{Shell, cmd};

use crate::workspace::{Workspace, file_name, package};

/// What is allowed, also for cargo-deny. Relative to the root.
const RULES: &str = "deny.toml";
/// What each package holds beside its sources.
const HELD: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// What cargo says where there is no network.
const NO_REGISTRY: [&str; 3] = [
    "attempting to make an HTTP request",
    "failed to download",
    "failed to query",
];

/// The folders of the crates that others can take, sorted.
pub(crate) fn published(workspace: &Workspace) -> Result<Vec<String>> {
    let mut crates = Vec::new();
    for folder in workspace.crates()? {
        let manifest = workspace.read(format!("crates/{folder}/Cargo.toml"))?;
        if !manifest.contains("\npublish = false") {
            crates.push(folder);
        }
    }
    Ok(crates)
}

/// The published crates but for programs, which nobody depends on.
pub(crate) fn libraries(workspace: &Workspace) -> Result<Vec<String>> {
    let mut crates = published(workspace)?;
    crates.retain(|name| workspace.folder(name).join("src/lib.rs").exists());
    Ok(crates)
}

/// Packs all crates, builds them from their packages, and does all that a publication does but
/// the last step. Without a registry, all but what its index is needed for.
pub(crate) fn pack(workspace: &Workspace) -> Result<()> {
    let shell = workspace.shell()?;
    for folder in published(workspace)? {
        let name = package(&folder);
        let list = cmd!(shell, "cargo package --package {name} --list --allow-dirty");
        let list = list.quiet().read()?;
        let lacks = HELD
            .iter()
            .find(|file| !list.lines().any(|held| held == **file));
        ensure!(lacks.is_none(), "the package {name} lacks {lacks:?}");
    }
    // A folder of its own, and new, and nothing unpacked: cargo takes a crate from a package for
    // the one that it unpacked and built from an earlier package, as the version is the same.
    let built = workspace.target.join("packages");
    shell.remove_path(&built)?;
    forget_unpacked(&shell)?;
    let publish = cmd!(
        shell,
        "cargo publish --dry-run --workspace --allow-dirty --target-dir {built}"
    );
    let output = publish.ignore_status().output()?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    eprint!("{complaints}");
    if !output.status.success() {
        let is_reached = !NO_REGISTRY.iter().any(|words| complaints.contains(words));
        ensure!(!is_reached, "the crates could not be published");
        println!("THE REGISTRY DOES NOT ANSWER: the crates are packed and not compared with it");
        let published = published(workspace)?;
        let packages = published.iter().flat_map(|folder| ["-p", package(folder)]);
        cmd!(
            shell,
            "cargo package {packages...} --allow-dirty --offline --target-dir {built}"
        )
        .run()?;
    }
    Ok(())
}

/// Removes what cargo has unpacked of these packages. Their registry is a folder, so that the name
/// of its sources' folder begins with the dash that follows a host's name elsewhere.
fn forget_unpacked(shell: &Shell) -> Result<()> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let sources = home.context("cargo has no home")?.join("registry/src");
    for registry in shell.read_dir(&sources).unwrap_or_default() {
        let is_folders = file_name(&registry).is_some_and(|name| name.starts_with('-'));
        let unpacked = concat!("worker-queue-", env!("CARGO_PKG_VERSION"));
        if is_folders && registry.join(unpacked).exists() {
            shell.remove_path(&registry)?;
        }
    }
    Ok(())
}

/// The part of [`RULES`] that needs no tool.
#[derive(Debug, Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

/// A crate that only these may stand on.
#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    wrappers: Vec<String>,
}

/// The part of `cargo metadata` that the rules are for.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    license: Option<String>,
    /// `None`: it lies in this tree.
    source: Option<String>,
    rust_version: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// `None`: an ordinary one.
    kind: Option<String>,
}

/// Checks licences, sources, bans and Rust versions of all that the workspace is built with.
pub(crate) fn check_rules(workspace: &Workspace) -> Result<()> {
    let rules: Rules = toml::from_str(&workspace.read(RULES)?).context(RULES)?;
    let shell = workspace.shell()?;
    let metadata = cmd!(shell, "cargo metadata --format-version 1 --all-features")
        .quiet()
        .read()?;
    let metadata: Metadata = serde_json::from_str(&metadata)?;
    let offences: Vec<String> = offences(&rules, &metadata.packages);
    for offence in &offences {
        println!("{offence}");
    }
    ensure!(
        offences.is_empty(),
        "{} offences against {RULES}",
        offences.len()
    );
    println!(
        "licences: {} packages, all allowed by {RULES}",
        metadata.packages.len()
    );
    Ok(())
}

fn offences(rules: &Rules, packages: &[Package]) -> Vec<String> {
    let mut offences = Vec::new();
    let ours = packages.iter().filter(|package| package.source.is_none());
    let promised = ours
        .filter_map(|package| minor(package.rust_version.as_deref()?))
        .min();
    for Package {
        name,
        license,
        source,
        rust_version,
        dependencies,
    } in packages
    {
        let license = license.as_deref().unwrap_or("none");
        if !is_allowed(license, &rules.licenses.allow) {
            offences.push(format!("{name}: its licence is {license}"));
        }
        if source
            .as_ref()
            .is_some_and(|source| !source.starts_with("registry+"))
        {
            offences.push(format!("{name}: it comes from no registry"));
        }
        let version = rust_version.as_deref().unwrap_or_default();
        if minor(version) > promised {
            offences.push(format!("{name}: it needs Rust {version}, more than ours"));
        }
        let ordinary = dependencies
            .iter()
            .filter(|to| to.kind.as_deref() != Some("dev"));
        let banned = |to: &&Dependency| {
            let mut bans = rules.bans.deny.iter();
            bans.any(|ban| ban.name == to.name && !ban.wrappers.contains(name))
        };
        // What the crates of others stand on is theirs to say.
        let banned = ordinary.filter(|_| source.is_none()).filter(banned);
        offences.extend(banned.map(|to| format!("{name}: it may not depend on {}", to.name)));
    }
    offences
}

/// The `88` of `1.88.0`.
fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

fn is_allowed(license: &str, allowed: &[String]) -> bool {
    let is_listed = |req: &LicenseReq| {
        let id = req.license.id();
        id.is_some_and(|id| allowed.iter().any(|name| *name == id.name))
    };
    let parsed = Expression::parse_mode(license, ParseMode::LAX);
    parsed.is_ok_and(|expression| expression.evaluate(is_listed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_licence_of_an_or_and_every_licence_of_an_and_is_needed() {
        let allowed = ["MIT", "Apache-2.0"].map(str::to_owned);
        for (license, expected) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0-only OR MIT", true),
            ("Apache-2.0 WITH LLVM-exception OR MIT", true),
            ("MIT AND Unicode-3.0", false),
            ("GPL-3.0-only", false),
            ("none", false),
        ] {
            assert_eq!(is_allowed(license, &allowed), expected, "{license}");
        }
    }

    #[test]
    fn banned_dependencies_unknown_sources_and_newer_compilers_are_offences() {
        let rules =
            "licenses.allow = ['MIT']\nbans.deny = [{ crate = 'loom', wrappers = ['shim'] }]";
        let rules: Rules = toml::from_str(rules).expect("well-formed");
        let of = |name: &str, source: Option<&str>, kind: Option<&str>, rust: &str| {
            let (name, license, rust_version) = (
                name.to_owned(),
                Some("MIT".to_owned()),
                Some(rust.to_owned()),
            );
            let to = Dependency {
                name: "loom".to_owned(),
                kind: kind.map(str::to_owned),
            };
            Package {
                name,
                license,
                source: source.map(str::to_owned),
                rust_version,
                dependencies: vec![to],
            }
        };
        let ours = || of("shim", None, None, "1.88");
        let theirs = |source, rust| offences(&rules, &[ours(), of("it", Some(source), None, rust)]);
        let alone = |name, kind| offences(&rules, &[of(name, None, kind, "1.88")]);
        assert_eq!(alone("pool", None), ["pool: it may not depend on loom"]);
        assert_eq!(alone("pool", Some("build")).len(), 1);
        assert_eq!(alone("pool", Some("dev")), [""; 0]);
        assert_eq!(alone("shim", None), [""; 0]);
        assert_eq!(theirs("registry+x", "1.88.0"), [""; 0]);
        assert_eq!(theirs("registry+x", "1.9"), [""; 0]);
        assert_eq!(theirs("git+x", "1.88"), ["it: it comes from no registry"]);
        assert_eq!(
            theirs("registry+x", "1.89"),
            ["it: it needs Rust 1.89, more than ours"]
        );
    }
}
