//! The programs that the stores' suites need, installed in a run of CI.
//!
//! Not for a developer's machine, on which nothing is installed unasked. There the suites of a missing
//! server are left out, and the run names them in its last line.
//!
//! # What always holds
//! 1. [`complete`] returns `Ok` only if every program it was asked for is installed.
//! 2. It runs nothing if all of them are.

use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use xshell::{Shell, cmd};

use crate::stores::find;

/// CI systems set this variable. In a run with `CI=true` nothing may be left out.
const CI: &str = "CI";
/// apt-get keeps the lists of packages there. Images of containers often have none.
const PACKAGE_LISTS: &str = "/var/lib/apt/lists";
/// Packages must not ask questions. `sudo` resets the environment, so the variable is set behind it.
const APT_GET: [&str; 3] = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
const INSTALL: [&str; 3] = ["install", "-y", "--no-install-recommends"];

/// A program, and the Debian package that contains it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// Any one of them is enough.
    pub(crate) names: &'static [&'static str],
    pub(crate) package: &'static str,
}

/// Whether this is a run of CI.
pub(crate) fn is_ci() -> bool {
    is_true(env::var(CI).ok().as_deref())
}

fn is_true(value: Option<&str>) -> bool {
    matches!(value, Some("true" | "1"))
}

/// Installs the programs that are missing.
///
/// # Errors
/// If one of them is missing after that, or apt-get fails, or this user may not call it.
pub(crate) fn complete(shell: &Shell, programs: &[Program]) -> Result<()> {
    let machine = Machine {
        has_one: &|names| find(names).is_some(),
        is_root: is_root(shell)?,
        has_package_lists: has_package_lists(),
        run: &|words| Ok(shell.cmd(words[0]).args(&words[1..]).run()?),
    };
    machine.complete(programs)
}

/// Whether this process has all rights.
pub(crate) fn is_root(shell: &Shell) -> Result<bool> {
    Ok(cmd!(shell, "id -u").quiet().read()? == "0")
}

fn has_package_lists() -> bool {
    let files = fs::read_dir(PACKAGE_LISTS).into_iter().flatten().flatten();
    files
        .map(|file| file.file_name())
        .any(|name| name.to_string_lossy().contains("_Packages"))
}

/// The machine that programs are installed on. Tests have one that only notes the commands.
struct Machine<'a> {
    has_one: &'a dyn Fn(&[&'static str]) -> bool,
    is_root: bool,
    has_package_lists: bool,
    run: &'a dyn Fn(&[&str]) -> Result<()>,
}

impl Machine<'_> {
    fn complete(&self, programs: &[Program]) -> Result<()> {
        let missing = self.missing(programs);
        if missing.is_empty() {
            return Ok(());
        }
        let names = missing.join(", ");
        println!("CI leaves no store out, so these packages are installed: {names}");
        self.install(&missing)
            .with_context(|| format!("a run of CI needs {names}, and they cannot be installed"))?;
        let missing = self.missing(programs).join(", ");
        ensure!(
            missing.is_empty(),
            "the programs of these packages were not found after their installation: {missing}"
        );
        Ok(())
    }

    /// The packages of the programs that are not there.
    fn missing(&self, programs: &[Program]) -> Vec<&'static str> {
        let missing = programs
            .iter()
            .filter(|program| !(self.has_one)(program.names));
        missing.map(|program| program.package).collect()
    }

    fn install(&self, packages: &[&str]) -> Result<()> {
        let rights: &[&str] = match (self.is_root, (self.has_one)(&["sudo"])) {
            (true, _) => &[],
            (false, true) => &["sudo", "-n"],
            (false, false) => bail!("this user is not root, and there is no sudo"),
        };
        let apt_get = |arguments: &[&str]| (self.run)(&[rights, &APT_GET, arguments].concat());
        let install = || apt_get(&[&INSTALL, packages].concat());
        if self.has_package_lists && install().is_ok() {
            return Ok(());
        }
        // Lists that are old name versions that the mirror has replaced.
        apt_get(&["update"])?;
        install()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    const NEEDED: [Program; 2] = [
        Program {
            names: &["pg_ctl"],
            package: "postgresql",
        },
        Program {
            names: &["redis-server", "valkey-server"],
            package: "redis-server",
        },
    ];
    const APT: &str = "env DEBIAN_FRONTEND=noninteractive apt-get";

    /// A machine, and what apt-get does on it.
    struct Test {
        installed: RefCell<Vec<&'static str>>,
        is_root: bool,
        has_package_lists: bool,
        /// How many installations fail, and whether later ones bring the programs.
        failures: Cell<usize>,
        works: bool,
        commands: RefCell<Vec<String>>,
    }

    impl Test {
        fn new(installed: &[&'static str]) -> Self {
            Self {
                installed: RefCell::new(installed.to_vec()),
                is_root: true,
                has_package_lists: true,
                failures: Cell::new(0),
                works: true,
                commands: RefCell::default(),
            }
        }

        /// The outcome, and the commands that were run.
        fn complete(&self) -> (Result<()>, Vec<String>) {
            let machine = Machine {
                has_one: &|names| {
                    let installed = self.installed.borrow();
                    names.iter().any(|name| installed.contains(name))
                },
                is_root: self.is_root,
                has_package_lists: self.has_package_lists,
                run: &|words| self.run(words),
            };
            let outcome = machine.complete(&NEEDED);
            (outcome, self.commands.borrow().clone())
        }

        fn run(&self, words: &[&str]) -> Result<()> {
            self.commands.borrow_mut().push(words.join(" "));
            if words.contains(&"update") {
                return Ok(());
            }
            let failures = self.failures.get();
            self.failures.set(failures.saturating_sub(1));
            ensure!(failures == 0, "no such version");
            let programs = NEEDED
                .iter()
                .filter(|program| self.works && words.contains(&program.package));
            let programs = programs.map(|program| program.names[0]);
            self.installed.borrow_mut().extend(programs);
            Ok(())
        }
    }

    #[test]
    fn a_run_is_one_of_ci_only_if_the_variable_says_so() {
        assert!(is_true(Some("true")) && is_true(Some("1")));
        for value in [None, Some(""), Some("false"), Some("0")] {
            assert!(!is_true(value), "{value:?}");
        }
    }

    #[test]
    fn nothing_is_run_if_every_program_is_installed_under_one_of_its_names() {
        let (outcome, commands) = Test::new(&["pg_ctl", "valkey-server"]).complete();
        assert!(outcome.is_ok());
        assert_eq!(commands, [""; 0]);
    }

    #[test]
    fn only_the_missing_packages_are_installed() {
        let (outcome, commands) = Test::new(&["pg_ctl"]).complete();
        assert!(outcome.is_ok());
        let install = format!("{APT} install -y --no-install-recommends redis-server");
        assert_eq!(commands, [install]);
    }

    #[test]
    fn package_lists_are_updated_first_if_there_are_none_and_once_if_they_are_out_of_date() {
        let install = format!("{APT} install -y --no-install-recommends postgresql redis-server");
        let update = format!("{APT} update");

        let mut test = Test::new(&[]);
        test.has_package_lists = false;
        let (outcome, commands) = test.complete();
        assert!(outcome.is_ok());
        assert_eq!(commands, [update.clone(), install.clone()]);

        let test = Test::new(&[]);
        test.failures.set(1);
        let (outcome, commands) = test.complete();
        assert!(outcome.is_ok());
        assert_eq!(commands, [install.clone(), update, install]);
    }

    #[test]
    fn an_installation_that_fails_fails_the_run_and_names_the_packages() {
        let test = Test::new(&["pg_ctl"]);
        test.failures.set(2);
        let error = test.complete().0.expect_err("apt-get has failed");
        let message = format!("{error:#}");
        assert!(message.contains("redis-server"), "{message}");
        assert!(message.contains("no such version"), "{message}");
    }

    #[test]
    fn a_program_that_is_missing_after_its_installation_fails_the_run() {
        let mut test = Test::new(&["redis-server"]);
        test.works = false;
        let error = test.complete().0.expect_err("it is not there");
        assert!(error.to_string().contains("postgresql"), "{error}");
    }

    #[test]
    fn a_user_who_is_not_root_needs_sudo() {
        let mut test = Test::new(&["pg_ctl"]);
        test.is_root = false;
        let (outcome, commands) = test.complete();
        assert!(format!("{:#}", outcome.expect_err("no sudo")).contains("sudo"));
        assert_eq!(commands, [""; 0]);

        test.installed.borrow_mut().push("sudo");
        let (outcome, commands) = test.complete();
        assert!(outcome.is_ok());
        assert!(
            commands
                .iter()
                .all(|command| command.starts_with("sudo -n env")),
            "{commands:?}"
        );
        assert_eq!(commands.len(), 1);
    }
}
