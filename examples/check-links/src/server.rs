//! An HTTP/1.1 server of a folder. It answers with heads only.

use std::collections::HashSet;
use std::error::Error;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_pool::AsyncPool;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Handle;

use crate::args::Options;

/// Connections that the kernel accepts for the server.
const BACKLOG: u32 = 4_096;
const LONGEST_REQUEST: usize = 16 * 1_024;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pool: AsyncPool,
}

/// Starts to serve on a free port of this machine.
///
/// # Errors
/// If the port or the threads cannot be had.
pub(crate) fn start(options: &Options, runtime: &Handle) -> Result<Server, Box<dyn Error>> {
    let entered = runtime.clone();
    let pool = AsyncPool::builder()
        .name("server")
        // One more for the task that accepts.
        .capacity(options.jobs + 1)
        .around_worker(move |run| {
            let _entered = entered.enter();
            run();
        })
        .build()?;
    let _entered = runtime.enter();
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let listener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    let site = Arc::new(Site::new(options));
    let room = pool.clone();
    pool.submit(async move {
        // Room first, then a connection: the kernel's queue holds connections that cannot be served yet.
        while let Ok(permit) = room.reserve_async().await {
            match listener.accept().await {
                Ok((stream, _)) => permit.submit(serve(Arc::clone(&site), stream)),
                // No descriptor is left. The connections that end return theirs.
                Err(_) => async_pool::yield_now().await,
            }
        }
    })?;
    Ok(Server { address, pool })
}

impl Server {
    /// Drops the connections that are still open.
    pub(crate) fn stop(self) -> Result<(), async_pool::WaitError> {
        self.pool.release_now();
        self.pool.wait_released()
    }
}

async fn serve(site: Arc<Site>, mut stream: TcpStream) {
    // The client reports a broken connection.
    _ = answer(&site, &mut stream).await;
}

async fn answer(site: &Site, stream: &mut TcpStream) -> io::Result<()> {
    let mut request = Vec::with_capacity(256);
    while !request.ends_with(b"\r\n\r\n") {
        if request.len() > LONGEST_REQUEST || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let request = String::from_utf8_lossy(&request);
    let mut words = request.split(' ');
    let status = match (words.next(), words.next()) {
        (Some("HEAD"), Some(path)) => site.status(path).await,
        _ => "405 Method Not Allowed",
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await
}

/// The folder that is served, and the faults that are wanted.
struct Site {
    root: PathBuf,
    refuse_every: Option<u64>,
    ignore_every: Option<u64>,
    /// Paths that have been refused or ignored.
    has_failed: Mutex<HashSet<String>>,
}

impl Site {
    fn new(options: &Options) -> Self {
        Self {
            root: options.folder.clone(),
            refuse_every: options.refuse_every,
            ignore_every: options.ignore_every,
            has_failed: Mutex::default(),
        }
    }

    async fn status(&self, path: &str) -> &'static str {
        let is_every = |every: Option<u64>| {
            let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(path);
            every.is_some_and(|every| hash.is_multiple_of(every)) && self.fails_first(path)
        };
        if is_every(self.refuse_every) {
            return "503 Service Unavailable";
        }
        if is_every(self.ignore_every) {
            std::future::pending::<()>().await; // Until the client closes the connection, or the pool drops it.
        }
        let name = percent_decode_str(path.trim_start_matches('/')).decode_utf8_lossy();
        let is_below = Path::new(&*name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        match tokio::fs::metadata(self.root.join(&*name)).await {
            Ok(_) if is_below => "200 OK",
            _ => "404 Not Found",
        }
    }

    /// Whether this is the first request of the path.
    fn fails_first(&self, path: &str) -> bool {
        let mut paths = self
            .has_failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        paths.insert(path.to_owned())
    }
}
