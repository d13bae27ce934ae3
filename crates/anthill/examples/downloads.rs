//! Downloads a list of pages over plain HTTP, at most four at a time: `downloads HOST:PORT..`.
//! Without arguments, it downloads from a server in its own process.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use anthill::{DropPolicy, Pool};

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder()
        .name("downloads")
        .capacity(4)
        .drop_policy(DropPolicy::Join)
        .build()?;
    let mut addresses: Vec<String> = std::env::args().skip(1).collect();
    if addresses.is_empty() {
        addresses = vec![serve()?; 10];
    }
    let mut pages = Vec::new();
    for address in addresses {
        let fetched = address.clone();
        // Waits while four downloads are running, so a long list is read no faster than it is
        // downloaded.
        pages.push((address, pool.spawn(move || fetch(&fetched))?));
    }
    for (address, page) in pages {
        match page.join()? {
            Ok(page) => println!("{address}: {} bytes", page.len()),
            Err(failed) => eprintln!("{address}: {failed}"),
        }
    }
    Ok(())
}

fn fetch(address: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!("GET / HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page)?;
    Ok(page)
}

/// A local server that answers every request with the same page.
fn serve() -> io::Result<String> {
    let listener = TcpListener::bind("localhost:0")?;
    let address = listener.local_addr()?.to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The client may have disconnected.
            let _ = (&stream).read(&mut [0; 512]);
            let _ = (&stream).write_all(b"HTTP/1.0 200 OK\r\n\r\nhello");
        }
    });
    Ok(address)
}
