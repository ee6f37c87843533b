CREATE TABLE invoices (
    number   text   PRIMARY KEY,
    customer text   NOT NULL,
    amount   bigint NOT NULL
);

CREATE TABLE stock (
    article  text   PRIMARY KEY,
    quantity bigint NOT NULL,
    version  bigint NOT NULL
);

CREATE TABLE documents (
    id      text   PRIMARY KEY,
    content jsonb  NOT NULL,
    version bigint NOT NULL DEFAULT 1
);
