-- The bank's own tables. Semel's are in a schema of their own, which `migrate` makes.

CREATE SCHEMA IF NOT EXISTS bank;

CREATE TABLE IF NOT EXISTS bank.accounts (
    id       text   PRIMARY KEY,
    currency text   NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    -- Money is counted in minor units: cents, not fractions of euros.
    opening  bigint NOT NULL CHECK (opening >= 0),
    balance  bigint NOT NULL CHECK (balance >= 0)
);

CREATE TABLE IF NOT EXISTS bank.transfers (
    id        text   PRIMARY KEY,
    debited   text   NOT NULL REFERENCES bank.accounts,
    credited  text   NOT NULL REFERENCES bank.accounts,
    amount    bigint NOT NULL CHECK (amount > 0),
    currency  text   NOT NULL,
    reference text   NOT NULL,
    -- The RecordId. Semel forgets a record after its retention; this remembers that a key made a
    -- transfer for as long as the transfer is there.
    idempotency_key bytea NOT NULL UNIQUE,
    created   timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (debited <> credited)
);

-- Two for each transfer, which add up to nothing.
CREATE TABLE IF NOT EXISTS bank.entries (
    transfer text   NOT NULL REFERENCES bank.transfers,
    account  text   NOT NULL REFERENCES bank.accounts,
    amount   bigint NOT NULL CHECK (amount <> 0),
    PRIMARY KEY (transfer, account)
);
CREATE INDEX IF NOT EXISTS entries_account ON bank.entries (account);
