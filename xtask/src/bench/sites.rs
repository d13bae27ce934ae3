//! `cargo xtask bench --sites`: what a call site costs to compile, next to the peers'.
//!
//! A pool's calls are generic over the closure, so each call site is compiled anew. Here crates are generated
//! that differ in nothing but the number of their call sites, each with a closure of its own, and the call. What
//! the further sites add to the crate's own build is what they cost.
//!
//! Not for: the build of the dependencies. They are built before anything is measured.
//!
//! # What always holds
//! 1. A figure is a difference within one round: the crate with many sites less the one with a single site. So
//!    cargo's own start and the link of what all have in common are in none.
//! 2. Each crate is run once, and its sum says that each site ran.
//! 3. The peers' versions are those of the benches' lock file.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use xshell::{Shell, cmd};

use super::origin::Origin;
use super::write;
use crate::flags;
use crate::workspace::Workspace;

/// Sites beyond the first.
const SITES: u32 = 200;
const FEW_SITES: u32 = 3;
const ROUNDS: usize = 3;
/// Below the target directory. The crates and their build lie there.
const FOLDER: &str = "sites";
/// The versions of the peers.
const LOCK: &str = "benches/Cargo.lock";
const PEERS: [&str; 3] = ["rayon", "threadpool", "tokio"];

/// A kind of call.
struct Kind {
    /// The generated packages are called so.
    package: &'static str,
    label: &'static str,
    /// A line of `[dependencies]`. `ROOT` stands for the root of this tree.
    dependency: &'static str,
    /// Makes `pool`.
    setup: &'static str,
    /// Its type.
    pool: &'static str,
    /// `CLOSURE` stands for the closure.
    call: &'static str,
    /// Whether the closure has a value.
    has_value: bool,
}

const OURS: &str = "pool-core = { path = \"ROOT/crates/pool-core\" }";
const OUR_POOL: &str = "&pool_core::Pool::builder().capacity(2).build().unwrap()";
const TOKIO: &str =
    "tokio = { version = \"1\", default-features = false, features = [\"rt-multi-thread\"] }";
const TOKIO_POOL: &str = "&tokio::runtime::Runtime::new().unwrap()";

const KINDS: [Kind; 7] = [
    Kind {
        package: "plain",
        label: "the closure called in place",
        dependency: "",
        setup: "()",
        pool: "()",
        call: "(CLOSURE)();",
        has_value: false,
    },
    Kind {
        package: "submit",
        label: "anthill `submit`",
        dependency: OURS,
        setup: OUR_POOL,
        pool: "&pool_core::Pool",
        call: "pool.submit(CLOSURE).unwrap();",
        has_value: false,
    },
    Kind {
        package: "threadpool",
        label: "threadpool `execute`",
        dependency: "threadpool = \"1\"",
        setup: "&threadpool::ThreadPool::new(2)",
        pool: "&threadpool::ThreadPool",
        call: "pool.execute(CLOSURE);",
        has_value: false,
    },
    Kind {
        package: "rayon",
        label: "rayon `spawn`",
        dependency: "rayon = \"1\"",
        setup: "()",
        pool: "()",
        call: "rayon::spawn(CLOSURE);",
        has_value: false,
    },
    Kind {
        package: "tokio-detached",
        label: "tokio `spawn_blocking`, its handle dropped",
        dependency: TOKIO,
        setup: TOKIO_POOL,
        pool: "&tokio::runtime::Runtime",
        call: "drop(pool.spawn_blocking(CLOSURE));",
        has_value: false,
    },
    Kind {
        package: "spawn",
        label: "anthill `spawn`, joined",
        dependency: OURS,
        setup: OUR_POOL,
        pool: "&pool_core::Pool",
        call: "pool.spawn(CLOSURE).unwrap().join().unwrap();",
        has_value: true,
    },
    Kind {
        package: "tokio-joined",
        label: "tokio `spawn_blocking`, joined",
        dependency: TOKIO,
        setup: TOKIO_POOL,
        pool: "&tokio::runtime::Runtime",
        call: "pool.block_on(pool.spawn_blocking(CLOSURE)).unwrap();",
        has_value: true,
    },
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Profile {
    Dev,
    Release,
}

const PROFILES: [Profile; 2] = [Profile::Dev, Profile::Release];

impl Profile {
    fn flag(self) -> Option<&'static str> {
        (self == Self::Release).then_some("--release")
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// Measures all kinds, and shows the table.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Bench) -> Result<()> {
    let sites = Sites::generate(workspace, SITES)?;
    let mut origin = Origin::here(&sites.shell)?;
    let default_rounds = if flags.quick { 1 } else { ROUNDS };
    let rounds = flags.rounds.unwrap_or(default_rounds);
    let costs = sites.measure(rounds, &PROFILES)?;
    origin.ended();
    let text = sites.table(&costs, rounds, &origin)?;
    println!("{text}");
    if let Some(path) = &flags.markdown {
        write(path, &text)?;
    }
    println!("bench: {} kinds of call sites", KINDS.len());
    Ok(())
}

/// Generates, builds and runs few sites of each kind, once.
pub(crate) fn smoke(workspace: &Workspace) -> Result<()> {
    let sites = Sites::generate(workspace, FEW_SITES)?;
    let costs = sites.measure(1, &[Profile::Dev])?;
    println!("{} kinds of call sites are built and run", costs.len());
    Ok(())
}

/// What the further sites of a kind cost in a profile.
struct Cost {
    kind: usize,
    profile: Profile,
    /// One for each round.
    times: Vec<Duration>,
    /// Bytes of machine code.
    code: u64,
}

/// The generated crates.
struct Sites {
    shell: Shell,
    folder: PathBuf,
    /// Beyond the first.
    count: u32,
}

impl Sites {
    fn generate(workspace: &Workspace, count: u32) -> Result<Self> {
        let shell = workspace.shell()?;
        let folder = workspace.target.join(FOLDER);
        let sites = Self {
            shell,
            folder,
            count,
        };
        let mut members = Vec::new();
        for kind in &KINDS {
            for count in [1, 1 + count] {
                let package = package(kind, count);
                let dependency = kind.dependency.replace("ROOT", &text_of(&workspace.root)?);
                let manifest = format!(
                    "[package]\nname = \"{package}\"\nedition = \"2024\"\npublish = false\n\n\
                     [dependencies]\n{dependency}\n"
                );
                let crate_folder = sites.folder.join(&package);
                write(&crate_folder.join("Cargo.toml"), &manifest)?;
                write(&crate_folder.join("src/main.rs"), &source(kind, count))?;
                members.push(format!("\"{package}\""));
            }
        }
        let members = members.join(", ");
        let manifest = format!("[workspace]\nresolver = \"3\"\nmembers = [{members}]\n");
        write(&sites.folder.join("Cargo.toml"), &manifest)?;
        fs::copy(workspace.root.join(LOCK), sites.folder.join("Cargo.lock"))?;
        sites.shell.set_var("CARGO_INCREMENTAL", "0");
        sites
            .shell
            .set_var("CARGO_TARGET_DIR", sites.folder.join("build"));
        Ok(sites)
    }

    /// The kinds take turns within a round, and each crate is built right after its twin.
    fn measure(&self, rounds: usize, profiles: &[Profile]) -> Result<Vec<Cost>> {
        let mut costs = Vec::new();
        for &profile in profiles {
            for (kind, of_kind) in KINDS.iter().enumerate() {
                let [few, many] = [1, 1 + self.count].map(|count| -> Result<u64> {
                    self.build(of_kind, count, profile)?;
                    self.check(of_kind, count, profile)?;
                    let program = fs::read(self.program(of_kind, count, profile))?;
                    code_size(&program).context("the program cannot be read")
                });
                costs.push(Cost {
                    kind,
                    profile,
                    times: Vec::new(),
                    code: many?.saturating_sub(few?),
                });
            }
        }
        for round in 1..=rounds {
            println!("bench: round {round} of {rounds}");
            for cost in &mut costs {
                let kind = &KINDS[cost.kind];
                let few = self.build_anew(kind, 1, cost.profile)?;
                let many = self.build_anew(kind, 1 + self.count, cost.profile)?;
                cost.times.push(many.saturating_sub(few));
            }
        }
        Ok(costs)
    }

    fn build(&self, kind: &Kind, count: u32, profile: Profile) -> Result<()> {
        let (package, flag) = (package(kind, count), profile.flag());
        let manifest = self.folder.join("Cargo.toml");
        let build = cmd!(
            self.shell,
            "cargo build --quiet --manifest-path {manifest} --package {package} {flag...}"
        );
        Ok(build.quiet().run()?)
    }

    /// The processor time of a build of this crate alone.
    fn build_anew(&self, kind: &Kind, count: u32, profile: Profile) -> Result<Duration> {
        let source = self.folder.join(package(kind, count)).join("src/main.rs");
        let text = fs::read(&source)?;
        fs::write(&source, text)?; // Its time says that it has changed.
        let before = processor_time_of_children()?;
        self.build(kind, count, profile)?;
        Ok(processor_time_of_children()?.saturating_sub(before))
    }

    fn program(&self, kind: &Kind, count: u32, profile: Profile) -> PathBuf {
        let build = self.folder.join("build").join(profile.folder());
        build.join(package(kind, count))
    }

    fn check(&self, kind: &Kind, count: u32, profile: Profile) -> Result<()> {
        let program = self.program(kind, count, profile);
        let told = cmd!(self.shell, "{program}").quiet().read()?;
        let digits = |n: u32| n.to_string().len() as u64;
        let expected: u64 = (0..count).map(|n| u64::from(n) + digits(n)).sum();
        ensure!(
            told == expected.to_string(),
            "{} call sites of {} come to {told}, not {expected}",
            count,
            kind.label
        );
        Ok(())
    }

    fn table(&self, costs: &[Cost], rounds: usize, origin: &Origin) -> Result<String> {
        let mut text = format!(
            "Cost of a call site: what each of {} further ones adds to the build of its crate. Median of {rounds} rounds \
             (least - most).\n\n\
             | call | dev: processor time | dev: code | release: processor time | release: code |\n\
             |---|---|---|---|---|\n",
            self.count
        );
        for (index, kind) in KINDS.iter().enumerate() {
            write!(text, "| {} |", kind.label)?;
            for cost in costs.iter().filter(|cost| cost.kind == index) {
                let code = cost.code / u64::from(self.count);
                write!(text, " {} | {code} bytes |", self.time_of_each(&cost.times))?;
            }
            text.push('\n');
        }
        let lock = fs::read_to_string(self.folder.join("Cargo.lock"))?;
        writeln!(text, "\n{}; {}.", versions(&lock)?, origin.line())?;
        Ok(text)
    }

    fn time_of_each(&self, times: &[Duration]) -> String {
        let mut times: Vec<_> = times
            .iter()
            .map(|time| time.as_secs_f64() * 1e3 / f64::from(self.count))
            .collect();
        times.sort_by(f64::total_cmp);
        match times[..] {
            [] => String::new(),
            [only] => format!("{only:.2} ms"),
            [least, .., most] => {
                let median = times[times.len() / 2];
                format!("{median:.2} ms ({least:.2} - {most:.2})")
            }
        }
    }
}

fn package(kind: &Kind, count: u32) -> String {
    let size = if count == 1 { "one" } else { "many" };
    format!("sites-{}-{size}", kind.package)
}

fn text_of(path: &Path) -> Result<String> {
    let text = path.to_str().context("the path of this tree is no text")?;
    Ok(text.replace('\\', "/"))
}

/// A program of so many call sites, each in a function of its own.
fn source(kind: &Kind, count: u32) -> String {
    let end = if kind.has_value { "" } else { ";" };
    let mut text = String::from(
        "//! Generated by `cargo xtask bench --sites`.\n\
         use std::sync::Arc;\n\
         use std::sync::atomic::{AtomicU64, Ordering, fence};\n",
    );
    let mut calls = String::new();
    for n in 0..count {
        let closure =
            format!("move || {{ sum.fetch_add({n} + text.len() as u64, Ordering::Relaxed){end} }}");
        let call = kind.call.replace("CLOSURE", &closure);
        let pool = kind.pool;
        let _ = write!(
            text,
            "\n#[inline(never)]\n\
             #[allow(unused_variables)]\n\
             fn site_{n}(pool: {pool}, sum: &Arc<AtomicU64>) {{\n    \
                 let (sum, text) = (Arc::clone(sum), String::from(\"{n}\"));\n    \
                 {call}\n\
             }}\n"
        );
        let _ = writeln!(calls, "    site_{n}(pool, &sum);");
    }
    let setup = kind.setup;
    let _ = write!(
        text,
        "\nfn main() {{\n    \
             let sum = Arc::new(AtomicU64::new(0));\n    \
             let pool = {setup};\n\
         {calls}    \
             while Arc::strong_count(&sum) > 1 {{\n        \
                 std::thread::yield_now(); // A task that has ended has dropped its share.\n    \
             }}\n    \
             fence(Ordering::Acquire);\n    \
             println!(\"{{}}\", sum.load(Ordering::Relaxed));\n\
         }}\n"
    );
    text
}

/// The peers and their versions.
fn versions(lock: &str) -> Result<String> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
    }
    let lock: Lock = toml::from_str(lock)?;
    let of = |peer: &&str| {
        let package = lock.package.iter().find(|package| package.name == **peer);
        let package = package.with_context(|| format!("{peer} is in no lock file"))?;
        Ok(format!("{peer} {}", package.version))
    };
    Ok(PEERS.iter().map(of).collect::<Result<Vec<_>>>()?.join(", "))
}

/// The processor time of all children that were waited for, and of theirs.
fn processor_time_of_children() -> Result<Duration> {
    /// What the kernel counts in here, whatever its own ticks are.
    const TICK: Duration = Duration::from_millis(10);
    let stat =
        fs::read_to_string("/proc/self/stat").context("processor time is read from procfs")?;
    let ticks = ticks_of_children(&stat).context("/proc/self/stat is not as it was")?;
    Ok(TICK.saturating_mul(ticks))
}

/// Fields 16 and 17: `cutime` and `cstime`. The second one is a name in parentheses, of any characters.
fn ticks_of_children(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<u32>().ok();
    next()?.checked_add(next()?)
}

/// The size of the sections of an ELF file that hold machine code.
fn code_size(program: &[u8]) -> Option<u64> {
    const EXECUTABLE: u64 = 4;
    let word = |at: usize, size: usize| {
        let bytes = program.get(at..at.checked_add(size)?)?;
        let little = bytes.iter().rev();
        Some(little.fold(0, |word, &byte| word << 8 | u64::from(byte)))
    };
    let place = |at, size| usize::try_from(word(at, size)?).ok();
    // ELF, 64 bits, the least significant byte first.
    if program.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (place(0x28, 8)?, place(0x3a, 2)?, place(0x3c, 2)?);
    let mut code = 0;
    for section in 0..count {
        let header = table.checked_add(section.checked_mul(size)?)?;
        if word(header.checked_add(8)?, 8)? & EXECUTABLE != 0 {
            code += word(header.checked_add(0x20)?, 8)?;
        }
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_site_has_its_own_function_and_closure() {
        for kind in &KINDS {
            let text = source(kind, 3);
            for n in 0..3 {
                assert_eq!(text.matches(&format!("fn site_{n}(")).count(), 1);
                assert_eq!(text.matches(&format!("fetch_add({n} + ")).count(), 1);
                assert_eq!(text.matches(&format!("    site_{n}(pool")).count(), 1);
            }
            assert!(!text.contains("CLOSURE"));
        }
    }

    #[test]
    fn the_versions_are_those_of_the_lock_file() {
        let one = |name: &str| {
            format!(
                "[[package]]\nname = \"{name}\"\nversion = \"1.2.{}\"\n",
                name.len()
            )
        };
        let lock = PEERS.map(one).join("\n");
        let told = versions(&lock).expect("all are there");
        assert_eq!(told, "rayon 1.2.5, threadpool 1.2.10, tokio 1.2.5");
        assert!(versions("[[package]]\nname = \"rayon\"\nversion = \"1.0.0\"\n").is_err());
    }

    #[test]
    fn processor_time_of_children_is_read_behind_any_name() {
        let stat = "7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 30 4 20 0";
        assert_eq!(ticks_of_children(stat), Some(34));
        assert_eq!(ticks_of_children("7 (x) S 1 2"), None);
    }

    #[test]
    fn the_code_of_a_program_is_the_sum_of_its_executable_sections() {
        let mut program = vec![0; 0x40];
        program[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (program[0x28], program[0x3a], program[0x3c]) = (0x40, 0x40, 3);
        for (flags, size) in [(6, 0x123), (2, 0x1000), (4, 0x100)] {
            let mut section = vec![0; 0x40];
            section[8] = flags;
            section[0x20..0x22].copy_from_slice(&u16::to_le_bytes(size));
            program.extend(section);
        }
        assert_eq!(code_size(&program), Some(0x223));
        assert_eq!(code_size(&program[..0x90]), None, "cut off");
        assert_eq!(code_size(b"no program"), None);
    }

    #[test]
    fn a_cost_is_shown_for_each_site_as_the_median_and_the_extremes() {
        let sites = Sites {
            shell: Shell::new().expect("there is a working directory"),
            folder: PathBuf::new(),
            count: 200,
        };
        let times = [300, 100, 500].map(Duration::from_millis);
        assert_eq!(sites.time_of_each(&times), "1.50 ms (0.50 - 2.50)");
        assert_eq!(sites.time_of_each(&times[..1]), "1.50 ms");
    }
}
