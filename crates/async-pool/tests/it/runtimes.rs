//! Sockets, timers and files of other runtimes, inside the pool's workers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use async_io::Async;
use async_pool::AsyncPool;
use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Handle, Runtime};

const LOCAL: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);
const CLIENTS: u8 = 50;
const SHORT: Duration = Duration::from_millis(1);

/// One thread, which drives tokio's sockets and timers.
fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build();
    runtime.expect("a thread can be started")
}

/// A pool whose workers have entered a runtime of tokio.
fn pool_in(runtime: &Handle) -> AsyncPool {
    let runtime = runtime.clone();
    AsyncPool::builder()
        .workers(2)
        .around_worker(move |run| {
            let _entered = runtime.enter();
            run();
        })
        .build()
        .expect("threads can be started")
}

#[testkit::test]
fn sockets_of_tokio_work_in_workers_that_have_entered_its_runtime() {
    let runtime = runtime();
    let pool = pool_in(runtime.handle());
    let server = pool.clone();
    let all = pool.spawn(async move {
        let listener = tokio::net::TcpListener::bind(LOCAL).await?;
        let address = listener.local_addr()?;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| server.spawn_async(echo_with_tokio(address, number)))
            .collect();
        let mut handles = Vec::new();
        for client in clients {
            handles.push(client.await.unwrap());
        }
        for _ in 0..CLIENTS {
            let (mut stream, _) = listener.accept().await?;
            let serve = async move {
                let (mut reader, mut writer) = stream.split();
                tokio::io::copy(&mut reader, &mut writer).await.unwrap();
            };
            server.submit_async(serve).await.unwrap();
        }
        for handle in handles {
            handle.await.unwrap()?;
        }
        io::Result::Ok(())
    });
    all.unwrap().join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().panicked, 0);
}

async fn echo_with_tokio(address: SocketAddr, number: u8) -> io::Result<()> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.write_all(&[number; 100]).await?;
    let mut answer = [0; 100];
    stream.read_exact(&mut answer).await?;
    assert_eq!(answer, [number; 100]);
    Ok(())
}

#[testkit::test]
fn timers_of_tokio_work_next_to_those_of_the_pool() {
    let runtime = runtime();
    let pool = pool_in(runtime.handle());
    let slept = pool.spawn(async {
        let begin = Instant::now();
        tokio::time::sleep(SHORT).await;
        async_pool::sleep(SHORT).await;
        let never = std::future::pending::<()>();
        assert!(tokio::time::timeout(SHORT, never).await.is_err());
        begin.elapsed()
    });
    assert!(slept.unwrap().join().unwrap() >= 3 * SHORT);
}

#[testkit::test]
fn files_of_tokio_work_in_workers_that_have_entered_its_runtime() {
    let runtime = runtime();
    let pool = pool_in(runtime.handle());
    let path = std::env::temp_dir().join(format!("async-pool-{}", std::process::id()));
    let file = path.clone();
    let read = pool.spawn(async move {
        tokio::fs::write(&file, "text").await?;
        tokio::fs::read_to_string(&file).await
    });
    let read = read.unwrap().join().unwrap();
    std::fs::remove_file(path).unwrap();
    assert_eq!(read.unwrap(), "text");
}

#[testkit::test]
fn a_task_of_the_pool_spawns_on_tokio_and_awaits_it_and_the_other_way_round() {
    let runtime = runtime();
    let pool = pool_in(runtime.handle());
    let on_tokio = pool.spawn(async { tokio::spawn(async { 7 }).await.unwrap() });
    assert_eq!(on_tokio.unwrap().join().unwrap(), 7);
    let on_pool = runtime.block_on(async move {
        let handle = pool.spawn_async(async { 8 }).await.unwrap();
        async_pool::sleep(SHORT).await;
        handle.await.unwrap()
    });
    assert_eq!(on_pool, 8);
}

#[testkit::test]
fn sleeps_timeouts_intervals_and_yields_work_in_the_pool_under_tokio_and_in_a_bare_block_on() {
    async fn waits() -> Duration {
        let begin = Instant::now();
        async_pool::sleep(SHORT).await;
        async_pool::sleep_until(begin + 2 * SHORT).await;
        let never = std::future::pending::<()>();
        assert!(async_pool::timeout(SHORT, never).await.is_err());
        let mut interval = async_pool::interval(SHORT);
        let first = interval.tick().await;
        assert_eq!(interval.tick().await, first + SHORT);
        async_pool::yield_now().await;
        begin.elapsed()
    }
    let pool = AsyncPool::builder().workers(1).build().unwrap();
    let in_pool = pool.spawn(waits()).unwrap().join().unwrap();
    let under_tokio = runtime().block_on(waits());
    let bare = futures_lite::future::block_on(waits());
    assert!(
        [in_pool, under_tokio, bare]
            .iter()
            .all(|took| *took >= 4 * SHORT)
    );
}

/// `async-io` has a thread of its own, so nothing has to be entered.
#[testkit::test]
fn sockets_and_timers_of_async_io_work() {
    let pool = AsyncPool::builder().workers(2).build().unwrap();
    let listener = Async::<TcpListener>::bind(LOCAL).unwrap();
    let address = listener.get_ref().local_addr().unwrap();
    let server = pool.spawn(async move {
        for _ in 0..CLIENTS {
            let (mut stream, _) = listener.accept().await?;
            let mut message = [0; 100];
            stream.read_exact(&mut message).await?;
            stream.write_all(&message).await?;
        }
        io::Result::Ok(())
    });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let client = pool.spawn(async move {
                async_io::Timer::after(SHORT).await;
                let mut stream = Async::<TcpStream>::connect(address).await?;
                stream.write_all(&[number; 100]).await?;
                let mut answer = [0; 100];
                stream.read_exact(&mut answer).await?;
                io::Result::Ok(answer)
            });
            client.unwrap()
        })
        .collect();
    for (number, client) in (0..CLIENTS).zip(clients) {
        assert_eq!(client.join().unwrap().unwrap(), [number; 100]);
    }
    server.unwrap().join().unwrap().unwrap();
}
