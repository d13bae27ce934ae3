//! A user and the mail to the user are stored together, or not at all.

use diesel::connection::SimpleConnection as _;
use diesel::sqlite::SqliteConnection;
use diesel::{Connection as _, RunQueryDsl as _, sql_query};
use diesel_mails::{Failure, push_in};
use durable_queue::{Cancelled, DurableQueue, Merge, Push, When};
use durable_queue_sqlite::SqliteStore;
use durable_queue_tests::support::Folder;

fn sign_up(
    connection: &mut SqliteConnection,
    mails: &DurableQueue<String, SqliteStore>,
    user: &str,
    fails: bool,
) -> Result<(), Failure> {
    let welcome = Push::new(format!("welcome, {user}"), When::NOW).keyed(user, Merge::Keep);
    connection.immediate_transaction(|connection| {
        let insert = format!("INSERT INTO users VALUES ('{user}')");
        sql_query(insert).execute(connection)?;
        push_in(connection, mails, &welcome)?;
        if fails {
            return Err(Failure::Database(
                diesel::result::Error::RollbackTransaction,
            ));
        }
        Ok(())
    })?;
    mails.announce();
    Ok(())
}

#[test]
fn a_mail_exists_if_and_only_if_its_user_does() {
    let folder = Folder::new();
    let path = folder.file("application");
    let mails = DurableQueue::new("mails", SqliteStore::open(&path).unwrap());
    let mut connection = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
    connection
        .batch_execute("CREATE TABLE users (name TEXT)")
        .unwrap();
    sign_up(&mut connection, &mails, "ann", false).unwrap();
    sign_up(&mut connection, &mails, "bob", true).unwrap_err();
    assert_eq!(mails.store_stats().unwrap().jobs, 1);
    let payload = "welcome, ann".to_owned();
    let gone = Cancelled::Gone {
        payload,
        attempts: 0,
    };
    assert_eq!(mails.cancel("ann").unwrap(), gone);
}
