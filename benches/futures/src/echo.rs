//! Concurrent echoes over loopback connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use measure::case::{Case, Outcome, Run};
use measure::meter::Meter;
use measure::report::Report;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, Semaphore};

use crate::peer::Peer;
use crate::peers::{InTokio, Tokio};

/// Number of connections. Both ends of each fit into 20,000 descriptors.
const CONNECTIONS: u32 = 9_900;
/// Connections that are being opened at a time: the listener has a queue.
const OPENING: usize = 500;

/// Each client opens a connection, waits until all connections are open, and sends a message that the server sends back.
async fn echoes<P: Peer>(peer: P, connections: u32) -> io::Result<()> {
    // Each process has an address of its own: ports of closed connections stay in use for a minute.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = SocketAddr::from((Ipv4Addr::new(127, high, low.max(1), 1), 0));
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let same = peer.clone();
    let server = peer.spawn(async move {
        for _ in 0..connections {
            let (stream, _) = listener.accept().await?;
            drop(same.spawn(serve(stream)));
        }
        io::Result::Ok(())
    });
    let opening = Arc::new(Semaphore::new(OPENING));
    let all_open = Arc::new(Barrier::new(connections as usize));
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            let (opening, all_open) = (Arc::clone(&opening), Arc::clone(&all_open));
            peer.spawn(async move {
                let permit = opening.acquire_owned().await;
                let mut stream = TcpStream::connect(address).await?;
                drop(permit);
                all_open.wait().await;
                let mut answer = [0; 64];
                stream.write_all(&[7; 64]).await?;
                stream.read_exact(&mut answer).await?;
                assert_eq!(answer, [7; 64]);
                io::Result::Ok(())
            })
        })
        .collect();
    for client in clients {
        P::join(client).await?;
    }
    P::join(server).await
}

async fn serve(mut stream: TcpStream) {
    let mut message = [0; 64];
    // An error is the end of the connection. Its client reports it.
    while stream.read_exact(&mut message).await.is_ok() {
        if stream.write_all(&message).await.is_err() {
            return;
        }
    }
}

fn measure<P: Peer>(run: &Run, peer: P) -> Outcome {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised)?;
    let connections = run.choose(CONNECTIONS, CONNECTIONS, 400);
    let same = peer.clone();
    let meter = Meter::start();
    let all = peer.spawn(async move { echoes(same, connections).await });
    peer.wait(all)?;
    let spent = meter.stop();
    std::mem::forget(peer);
    let each = spent.cpu.as_secs_f64() * 1e6 / f64::from(connections);
    Ok(Report::new().with("cpu", "us/echo", each).with(
        "wall",
        "ms",
        spent.wall.as_secs_f64() * 1e3,
    ))
}

pub fn cases() -> Vec<Case> {
    let names = &["ours", "tokio"];
    let case = Case::new(
        "echo".to_owned(),
        "Sockets",
        "What does an echo cost over one of 9,900 open loopback connections, both ends and its opening included, with \
         tokio's sockets?",
        names,
        |run| match &*run.pool {
            "ours" => measure(run, InTokio::start().pool().clone()),
            _ => measure(run, Tokio::start(None)),
        },
    );
    vec![case.quick(true, names)]
}
