//! A separate Redis server per test, which can be killed, starved and stopped.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::{env, fs};

use redis::{Client, Cmd, Connection, FromRedisValue, cmd};

use crate::address::{REDIS, address};
use crate::support::Folder;

const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

pub struct Server {
    folder: Folder,
    program: PathBuf,
    /// After the name of a file with the configuration, if there is one.
    options: Vec<String>,
    child: Child,
}

/// Returns the server's program, if servers are enabled.
fn program() -> Option<PathBuf> {
    address(REDIS)?;
    let path = env::var_os("PATH").unwrap_or_default();
    let mut all = env::split_paths(&path).flat_map(|folder| PROGRAMS.map(|name| folder.join(name)));
    let found = all.find(|program| program.exists());
    if found.is_none() {
        testkit::left_out("tests that kill a Redis", "there is no redis-server");
    }
    found
}

impl Server {
    /// Starts a durable server, with additional options.
    pub fn new(options: &[&str]) -> Option<Self> {
        Self::prepared(options, |_| ())
    }

    /// Like `new`, with files in its folder that the options refer to.
    pub fn prepared(options: &[&str], prepare: impl FnOnce(&Path)) -> Option<Self> {
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        Self::started(&[&durable[..], options].concat(), prepare)
    }

    /// Starts a server that need not be durable. Its first option may be a file in its folder.
    pub fn started(options: &[&str], prepare: impl FnOnce(&Path)) -> Option<Self> {
        let program = program()?;
        let folder = Folder::new();
        let options: Vec<String> = options.iter().map(|it| (*it).to_owned()).collect();
        prepare(folder.path());
        let child = spawn(&program, folder.path(), &options);
        let server = Self {
            folder,
            program,
            options,
            child,
        };
        server.wait(|_| true);
        Some(server)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn address(&self) -> String {
        format!("redis+unix://{}", self.folder.file("socket").display())
    }

    pub fn session(&self) -> Connection {
        let client = Client::open(self.address()).unwrap();
        client.get_connection().unwrap()
    }

    pub fn run<T: FromRedisValue>(&self, command: &Cmd) -> T {
        command.query(&mut self.session()).unwrap()
    }

    pub fn set(&self, setting: &str, value: &str) {
        self.run::<()>(cmd("CONFIG").arg("SET").arg(setting).arg(value));
    }

    /// Waits until the server responds and its INFO satisfies `is_there`.
    pub fn wait(&self, is_there: impl Fn(&str) -> bool) {
        testkit::watchdog(testkit::LIMIT, || {
            loop {
                let client = Client::open(self.address()).unwrap();
                let info = client
                    .get_connection()
                    .and_then(|mut session| cmd("INFO").query::<String>(&mut session));
                if info.is_ok_and(|info| is_there(&info)) {
                    return;
                }
                std::thread::yield_now();
            }
        });
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let status = kill
            .args(["-s", name, &self.child.id().to_string()])
            .status();
        assert!(status.unwrap().success());
    }

    /// Kills it without a chance to write anything.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Restarts it, with additional options.
    pub fn start(&mut self, options: &[&str]) {
        let options = options.iter().map(|option| (*option).to_owned());
        let options: Vec<String> = self.options.iter().cloned().chain(options).collect();
        self.child = spawn(&self.program, self.folder(), &options);
    }

    /// Kills and restarts it. Returns when it responds again.
    pub fn crash(&mut self) {
        self.kill();
        self.start(&[]);
        self.wait(|info| info.contains("\nloading:0"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn spawn(program: &Path, folder: &Path, options: &[String]) -> Child {
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .unwrap();
    let is_file = |option: &&String| !option.starts_with("--");
    let file = options.first().filter(is_file);
    Command::new(program)
        .args(file.map(|name| folder.join(name)))
        .args(["--port", "0", "--save", "", "--unixsocket"])
        .arg(folder.join("socket"))
        .arg("--dir")
        .arg(folder)
        .args(&options[usize::from(file.is_some())..])
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Returns a port that is free now. Outside the range from which the system takes the ports of clients.
pub(crate) fn free_port() -> u16 {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 18_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        // Relaxed: only a unique number is needed. Other processes begin elsewhere.
        let number = std::process::id() * 97 + NEXT.fetch_add(1, Relaxed);
        let port = u16::try_from(FIRST + number % COUNT).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
