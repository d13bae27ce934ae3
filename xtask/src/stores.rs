//! `cargo xtask stores up|down`: the servers for the tests of `durable-queue`'s stores.
//!
//! Not for permanent data: `down` deletes all data of the servers. On machines with docker,
//! `crates/durable-queue-tests/compose.yaml` can be used instead.
//!
//! # Invariants
//! 1. A server is below `target/stores`, listens only on this machine, on a port that was free,
//!    and requires a password, so that logging in is tested too.
//! 2. It is durable: every confirmed commit has been synced.
//! 3. `target/stores/env` contains the addresses of the servers, as lines for a shell, and exists
//!    only while they are running.

use std::collections::hash_map::RandomState;
use std::env;
use std::fs::{self, File};
use std::hash::BuildHasher as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use xshell::{Cmd, Shell, cmd};

use crate::flags;
use crate::test::{LEFT_OUT, WHOLE};
use crate::workspace::{MissingTool, Workspace, succeeds};

/// A server that does not listen by then has failed to start.
const LIMIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A kind of server.
struct Server {
    name: &'static str,
    /// The environment variable with its address, for the tests.
    variable: &'static str,
    /// Names of its program, of which the first installed one is used.
    programs: &'static [&'static str],
    /// The Debian package that contains it.
    package: &'static str,
    start: fn(&Place<'_>) -> Result<String>,
    stop: fn(&Place<'_>) -> Result<()>,
}

const SERVERS: [Server; 2] = [
    Server {
        name: "postgres",
        variable: "DURABLE_POSTGRES_URL",
        programs: &["pg_ctl"],
        package: "postgresql",
        start: start_postgres,
        stop: stop_postgres,
    },
    Server {
        name: "redis",
        variable: "DURABLE_REDIS_URL",
        programs: &["redis-server", "valkey-server"],
        package: "redis-server",
        start: start_redis,
        stop: stop_redis,
    },
];

/// The folder of a server and its programs.
struct Place<'a> {
    shell: &'a Shell,
    folder: PathBuf,
    /// The folder of its programs, and the name that was found.
    programs: PathBuf,
    program: &'static str,
}

impl<'a> Place<'a> {
    /// Returns `None` if the server is not installed.
    fn of(workspace: &Workspace, shell: &'a Shell, server: &Server) -> Option<Self> {
        let (programs, program) = find(server.programs)?;
        let folder = workspace.target.join("stores").join(server.name);
        Some(Self {
            shell,
            folder,
            programs,
            program,
        })
    }
}

/// Starts the servers, or stops them.
pub(crate) fn run(workspace: &Workspace, flags: &flags::Stores) -> Result<()> {
    let only = flags.only.as_deref();
    let is_known = only.is_none_or(|only| SERVERS.iter().any(|server| server.name == only));
    ensure!(
        is_known,
        "unknown server; the servers are postgres and redis"
    );
    if flags.what == "down" {
        return down(workspace, only);
    }
    ensure!(flags.what == "up", "expected `up` or `down`");
    let urls = up(workspace, only)?;
    if urls.is_empty() {
        let remedy = "no server is installed: apt-get install postgresql redis-server";
        return Err(MissingTool(remedy.to_owned()).into());
    }
    print!("{}", lines(&urls));
    let (count, file) = (urls.len(), env_file(workspace));
    println!(
        "stores: {count} up; their addresses are in {}",
        file.display()
    );
    Ok(())
}

/// Starts the installed servers that are not running. Returns their variables and addresses, and
/// reports missing servers.
pub(crate) fn up(workspace: &Workspace, only: Option<&str>) -> Result<Vec<(&'static str, String)>> {
    let shell = workspace.shell()?;
    let known = read_env(workspace);
    let mut urls = Vec::new();
    for server in &SERVERS {
        let Server { name, package, .. } = server;
        let mut up = known.iter().filter(|it| it.0 == server.variable);
        if let Some((_, url)) = up.find(|(_, url)| answers(url)) {
            urls.push((server.variable, url.clone()));
        } else if only.is_none_or(|only| only == *name) {
            let Some(place) = Place::of(workspace, &shell, server) else {
                println!(
                    "stores: {name} is not installed, so its tests are left out: apt-get install {package}"
                );
                continue;
            };
            shell.remove_path(&place.folder)?;
            shell.create_dir(&place.folder)?;
            let url = (server.start)(&place).with_context(|| format!("{name} does not start"))?;
            urls.push((server.variable, url));
            // Written at once, so that `down` finds this server if the next one does not start.
            write_env(workspace, &urls)?;
        }
    }
    Ok(urls)
}

/// Stops the servers and deletes their data.
pub(crate) fn down(workspace: &Workspace, only: Option<&str>) -> Result<()> {
    let shell = workspace.shell()?;
    let mut left = Vec::new();
    for (variable, url) in read_env(workspace) {
        let server = SERVERS.iter().find(|server| server.variable == variable);
        let server = server.context("an unknown server")?;
        if only.is_some_and(|only| only != server.name) {
            left.push((server.variable, url));
            continue;
        }
        let place = Place::of(workspace, &shell, server)
            .with_context(|| format!("{} is not installed any more", server.name))?;
        (server.stop)(&place)?;
        shell.remove_path(&place.folder)?;
        println!("stores: {} is down", server.name);
    }
    write_env(workspace, &left)
}

/// Runs the suites of the stores against real servers. In CI, fails if a test was left out.
pub(crate) fn in_ci(workspace: &Workspace) -> Result<()> {
    let file = left_out_file(workspace);
    workspace.shell()?.write_file(&file, "")?;
    with_servers(workspace, |shell, _| {
        shell.set_var(LEFT_OUT, &file);
        suites(workspace, shell)
    })?;
    check_left_out(is_ci(), &left_out(workspace)?)
}

/// CI systems set this variable.
fn is_ci() -> bool {
    env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

fn check_left_out(is_ci: bool, left_out: &str) -> Result<()> {
    let parts = left_out.trim().replace('\n', ", ");
    let is_allowed = !is_ci || parts.is_empty();
    ensure!(is_allowed, "CI must not leave tests out, but did: {parts}");
    Ok(())
}

/// The tests that the last [`in_ci`] has left out, one per line.
pub(crate) fn left_out(workspace: &Workspace) -> Result<String> {
    Ok(fs::read_to_string(left_out_file(workspace))?)
}

fn left_out_file(workspace: &Workspace) -> PathBuf {
    workspace.target.join("stores-left-out.txt")
}

/// Runs `work` with a shell in which tests find the servers, and with the servers' variables. Stops
/// the servers afterwards, unless they were running before.
pub(crate) fn with_servers<T>(
    workspace: &Workspace,
    work: impl FnOnce(&Shell, &[(&'static str, String)]) -> Result<T>,
) -> Result<T> {
    let were_up = env_file(workspace).exists();
    let urls = up(workspace, None)?;
    let shell = workspace.shell()?;
    for (variable, url) in &urls {
        shell.set_var(variable, url);
    }
    let done = work(&shell, &urls);
    if !were_up {
        down(workspace, None)?;
    }
    let (available, all) = (urls.len(), SERVERS.len());
    println!("stores: {available} of {all} servers were available");
    done
}

/// All suites at once, then, alone, the tests that kill a server.
fn suites(workspace: &Workspace, shell: &Shell) -> Result<()> {
    let tests = ["stores", "cli", "orders", "memory"].map(|name| format!("--test={name}"));
    cmd!(shell, "cargo test {WHOLE...} {tests...}").run()?;
    for server in &SERVERS {
        let kills = ["--test", "crash", "--", "--on", server.name];
        cmd!(shell, "cargo test {WHOLE...} {kills...}").run()?;
    }
    for on in ["postgres", "redis"] {
        let limits = ["--test", "limits", "--", "--on", on];
        cmd!(shell, "cargo test {WHOLE...} {limits...}").run()?;
    }
    if let Some(restart) = restart_of_postgres(workspace, shell)? {
        shell.set_var(RESTART, restart);
        let crashes = ["--test", "stores", "--", "--ignored", "--test-threads=1"];
        cmd!(shell, "cargo test {WHOLE...} {crashes...}").run()?;
    }
    Ok(())
}

/// The environment variable with the command that kills and restarts `PostgreSQL`. A test kills its
/// own Redis server.
pub(crate) const RESTART: &str = "DURABLE_POSTGRES_RESTART";

/// The command, if the server is running.
pub(crate) fn restart_of_postgres(workspace: &Workspace, shell: &Shell) -> Result<Option<String>> {
    let place = Place::of(workspace, shell, &SERVERS[0]);
    let place = place.filter(|place| place.folder.exists());
    // An immediate stop is a crash: the server writes nothing.
    let restart = ["restart", "--mode=immediate"];
    let restart = place.map(|place| Ok(pg_ctl(&place, &restart)?.to_string()));
    restart.transpose()
}

fn env_file(workspace: &Workspace) -> PathBuf {
    workspace.target.join("stores/env")
}

fn read_env(workspace: &Workspace) -> Vec<(String, String)> {
    let text = fs::read_to_string(env_file(workspace)).unwrap_or_default();
    let lines = text.lines().filter_map(|line| {
        let (variable, url) = line.strip_prefix("export ")?.split_once('=')?;
        Some((variable.to_owned(), url.to_owned()))
    });
    lines.collect()
}

fn write_env(workspace: &Workspace, urls: &[(&str, String)]) -> Result<()> {
    let (shell, file) = (workspace.shell()?, env_file(workspace));
    if urls.is_empty() {
        return Ok(shell.remove_path(file)?);
    }
    Ok(shell.write_file(file, lines(urls))?)
}

fn lines(urls: &[(&str, String)]) -> String {
    let line = |(variable, url): &(&str, String)| format!("export {variable}={url}\n");
    urls.iter().map(line).collect()
}

/// The folder of Debian's packages for most programs of `PostgreSQL`, in `VERSION/bin`.
const DEBIAN_POSTGRES: &str = "/usr/lib/postgresql";
/// The folder of Debian's packages for servers. It is only in root's path.
const SBIN: &str = "/usr/sbin";

/// Returns the first of these programs that is installed, and its folder.
pub(crate) fn find(programs: &[&'static str]) -> Option<(PathBuf, &'static str)> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.push(SBIN.into());
    folders.extend(debian_postgres(Path::new(DEBIAN_POSTGRES)));
    find_in(&folders, programs)
}

/// The folders of the programs of `PostgreSQL`, newest version first.
fn debian_postgres(folder: &Path) -> Vec<PathBuf> {
    let versions = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|version| version.path()).collect();
    // By the major version, so that 9.6 is older than 15.
    versions.sort_by_key(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let major = name.split('.').next().and_then(|major| major.parse().ok());
        std::cmp::Reverse(major.unwrap_or(0_u32))
    });
    versions.into_iter().map(|path| path.join("bin")).collect()
}

fn find_in(folders: &[PathBuf], programs: &[&'static str]) -> Option<(PathBuf, &'static str)> {
    programs.iter().find_map(|&program| {
        let mut folders = folders.iter();
        let folder = folders.find(|folder| folder.join(program).exists())?;
        Some((folder.clone(), program))
    })
}

/// Whether a server accepts connections at this address.
fn answers(url: &str) -> bool {
    let address = url.split(['@', '/']).nth(3); // KIND://USER:PASSWORD@ADDRESS/DATABASE
    address.is_some_and(|address| TcpStream::connect(address).is_ok())
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// A random password without characters that need escaping in an address.
fn password() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// A program of `PostgreSQL`, which refuses to run as root. Then it runs as an unprivileged user,
/// who becomes the owner of the folder.
fn as_user<'a>(place: &Place<'a>, program: &str) -> Result<Cmd<'a>> {
    let (shell, folder, program) = (place.shell, &place.folder, place.programs.join(program));
    if cmd!(shell, "id -u").quiet().read()? != "0" {
        return Ok(cmd!(shell, "env {program}").quiet());
    }
    let mut users = ["postgres", "nobody"].into_iter();
    let user = users.find(|user| succeeds("id", &[user]));
    let user = user.context("there is no user with fewer rights than root")?;
    cmd!(shell, "chown {user} {folder}").quiet().run()?;
    Ok(cmd!(shell, "runuser -u {user} -- {program}").quiet())
}

fn start_postgres(place: &Place<'_>) -> Result<String> {
    let (folder, programs) = (&place.folder, &place.programs);
    let (port, password) = (free_port()?, password());
    let [data, secret] = ["data", "password"].map(|name| folder.join(name));
    // The path of a socket is limited to 107 bytes, and that of the folder may be longer.
    let is_long = folder.as_os_str().len() >= 80;
    let sockets = is_long.then(env::temp_dir);
    let sockets = sockets.as_ref().unwrap_or(folder);
    fs::write(&secret, &password)?;
    let options = "--username=anthill --auth=scram-sha-256 --encoding=UTF8 --no-locale";
    as_user(place, "initdb")?
        .args(options.split(' '))
        .args([Path::new("--pgdata"), &data, Path::new("--pwfile"), &secret])
        .ignore_stdout()
        .run()?;
    let settings = format!(
        "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\n\
        max_connections = 200\nfsync = on\nsynchronous_commit = on\nfull_page_writes = on\n\
        # What is not synced by its commit stays so: a crash shows it.\n\
        wal_writer_delay = 10s\n{}",
        sockets.display(),
        counting(programs)
    );
    let file = data.join("postgresql.conf");
    let all = fs::read_to_string(&file)? + &settings;
    fs::write(&file, all)?;
    pg_ctl(place, &["start"])?.run()?;
    Ok(format!(
        "postgres://anthill:{password}@127.0.0.1:{port}/postgres"
    ))
}

/// The setting by which the server counts statements, if it supports that: `bench --stores` reads
/// them.
fn counting(programs: &Path) -> &'static str {
    let program = fs::canonicalize(programs.join("postgres")).unwrap_or_default();
    let library = program.ancestors().nth(2);
    let library = library.map(|folder| folder.join("lib/pg_stat_statements.so"));
    if library.is_some_and(|library| library.exists()) {
        "shared_preload_libraries = 'pg_stat_statements'\n"
    } else {
        ""
    }
}

fn stop_postgres(place: &Place<'_>) -> Result<()> {
    Ok(pg_ctl(place, &["stop", "--mode=fast"])?.run()?)
}

/// A command that waits for its effect on the server.
fn pg_ctl<'a>(place: &Place<'a>, what: &[&str]) -> Result<Cmd<'a>> {
    let [data, log] = ["data", "log"].map(|name| place.folder.join(name));
    let command = as_user(place, "pg_ctl")?
        .args(what)
        .args(["--wait", "--silent", "--pgdata"]);
    Ok(command.arg(data).arg("--log").arg(log))
}

fn start_redis(place: &Place<'_>) -> Result<String> {
    let folder = &place.folder;
    let (port, password) = (free_port()?, password());
    let log = File::create(folder.join("log"))?;
    let mut server = Command::new(place.programs.join(place.program));
    server
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(["--requirepass", &password, "--save", ""])
        .args(["--appendonly", "yes", "--appendfsync", "always"])
        // The log must not shrink, because `bench --stores` reads its length.
        .args(["--auto-aof-rewrite-percentage", "0"])
        .arg("--dir")
        .arg(folder);
    let server = server
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    fs::write(folder.join("process"), server.id().to_string())?;
    let url = format!("redis://default:{password}@127.0.0.1:{port}/0");
    let begin = Instant::now();
    while !answers(&url) {
        let folder = folder.display();
        ensure!(begin.elapsed() < LIMIT, "it does not listen: {folder}/log");
        sleep(LOOK_EVERY);
    }
    Ok(url)
}

fn stop_redis(place: &Place<'_>) -> Result<()> {
    let shell = place.shell;
    let process = fs::read_to_string(place.folder.join("process"))?;
    Ok(cmd!(shell, "kill {process}").quiet().run()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_postgresql_is_found_in_debians_folder() {
        let debian = env::temp_dir().join(format!("xtask-stores-{}", std::process::id()));
        for version in ["9.6", "14", "17"] {
            let bin = debian.join(version).join("bin");
            fs::create_dir_all(&bin).expect("a folder");
            fs::write(bin.join("pg_ctl"), "").expect("a file");
        }
        // The newest version has only a client.
        fs::create_dir_all(debian.join("18/bin")).expect("a folder");
        let found = find_in(&debian_postgres(&debian), &["pg_ctl"]);
        fs::remove_dir_all(&debian).expect("it is there");
        assert_eq!(found, Some((debian.join("17/bin"), "pg_ctl")));
        // The first of the names that is installed.
        let found = find(&["no-server-has-this-name", "cargo", "rustc"]);
        assert_eq!(found.map(|(_, program)| program), Some("cargo"));
        assert_eq!(find(&["no-server-has-this-name"]), None);
        assert_eq!(debian_postgres(&debian), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn ci_fails_and_names_a_test_that_was_left_out() {
        assert!(check_left_out(true, "").is_ok());
        let left_out = "tests with TLS (there is no openssl)\n";
        assert!(check_left_out(false, left_out).is_ok());
        let error = check_left_out(true, left_out).expect_err("something was left out");
        assert!(error.to_string().contains("tests with TLS"), "{error}");
    }
}
