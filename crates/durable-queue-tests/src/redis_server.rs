//! A separate Redis server per test, which can be killed, starved and stopped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use redis::{Client, Cmd, Connection, FromRedisValue, cmd};

use crate::address::{REDIS, address};
use crate::support::Folder;

const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

pub struct Server {
    folder: Folder,
    program: PathBuf,
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
        let program = program()?;
        let folder = Folder::new();
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        let options = [&durable[..], options].concat();
        let options: Vec<String> = options.into_iter().map(str::to_owned).collect();
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
    Command::new(program)
        .args(["--port", "0", "--save", "", "--unixsocket"])
        .arg(folder.join("socket"))
        .arg("--dir")
        .arg(folder)
        .args(options)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}
