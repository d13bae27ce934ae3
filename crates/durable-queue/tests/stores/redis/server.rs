//! A server of one test's own, which may be killed, starved and stopped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::{env, process};

use ::redis::{Client, Cmd, Connection, FromRedisValue, cmd};
use durable_queue::RedisStore;

use crate::address::{REDIS, address};

const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

pub(super) struct Server {
    folder: PathBuf,
    program: PathBuf,
    options: Vec<String>,
    child: Child,
}

/// Of the path, if servers are wanted at all.
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
    /// Durable, but for what the options say.
    pub(super) fn new(options: &[&str]) -> Option<Self> {
        Self::prepared(options, |_| ())
    }

    /// As `new`, with files in its folder that options name.
    pub(super) fn prepared(options: &[&str], prepare: impl FnOnce(&Path)) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let program = program()?;
        // Relaxed: a number of its own is all that is wanted.
        let number = NEXT.fetch_add(1, Relaxed);
        let folder = env::temp_dir().join(format!("durable-redis-{}-{number}", process::id()));
        fs::remove_dir_all(&folder).ok();
        fs::create_dir(&folder).unwrap();
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        let options = [&durable[..], options].concat();
        let options: Vec<String> = options.into_iter().map(str::to_owned).collect();
        prepare(&folder);
        let child = spawn(&program, &folder, &options);
        let server = Self {
            folder,
            program,
            options,
            child,
        };
        server.wait(|_| true);
        Some(server)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn address(&self) -> String {
        format!("redis+unix://{}", self.folder.join("socket").display())
    }

    pub(super) fn store(&self) -> RedisStore {
        RedisStore::open(&self.address()).unwrap()
    }

    pub(super) fn session(&self) -> Connection {
        let client = Client::open(self.address()).unwrap();
        client.get_connection().unwrap()
    }

    pub(super) fn run<T: FromRedisValue>(&self, command: &Cmd) -> T {
        command.query(&mut self.session()).unwrap()
    }

    pub(super) fn set(&self, setting: &str, value: &str) {
        self.run::<()>(cmd("CONFIG").arg("SET").arg(setting).arg(value));
    }

    /// Until it answers, and its figures are as wanted.
    pub(super) fn wait(&self, is_there: impl Fn(&str) -> bool) {
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

    /// A signal, by its name.
    pub(super) fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let status = kill
            .args(["-s", name, &self.child.id().to_string()])
            .status();
        assert!(status.unwrap().success());
    }

    /// Without a chance to write anything down.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, with more options.
    pub(super) fn start(&mut self, options: &[&str]) {
        let options = options.iter().map(|option| (*option).to_owned());
        let options: Vec<String> = self.options.iter().cloned().chain(options).collect();
        self.child = spawn(&self.program, &self.folder, &options);
    }

    /// Returns when it answers again.
    pub(super) fn crash(&mut self) {
        self.kill();
        self.start(&[]);
        self.wait(|info| info.contains("\nloading:0"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        fs::remove_dir_all(&self.folder).ok();
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
