CREATE TABLE Runs (
  RunId        STRING(64) NOT NULL,
  Dataset      STRING(MAX),
  State        STRING(16) NOT NULL,   -- PUBLISHING, PUBLISHED, CANCELLED
  Published    INT64 NOT NULL,        -- items confirmed by Pub/Sub so far; final once PUBLISHED
  CreatedAt    TIMESTAMP NOT NULL,
  UpdatedAt    TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true),
) PRIMARY KEY (RunId);

CREATE TABLE Results (
  RunId        STRING(64)  NOT NULL,
  Shard        INT64       NOT NULL,  -- crc32c(ItemId) mod 64: spreads sequential IDs over splits
  ItemId       STRING(256) NOT NULL,
  Status       STRING(8)   NOT NULL,  -- OK, FAILED
  Output       STRING(MAX),           -- JSON text, byte for byte as the model gave it; JSON_VALUE() reads it
  ErrorClass   STRING(32),
  ErrorMessage STRING(2048),
  ModelVersion STRING(128) NOT NULL,
  Worker       STRING(128) NOT NULL,
  InferMillis  FLOAT64,               -- the item's share of its batch's model time
  CommittedAt  TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true),
) PRIMARY KEY (RunId, Shard, ItemId);

CREATE TABLE Attempts (               -- starts of suspected items that have not come back yet
  RunId STRING(64) NOT NULL, Shard INT64 NOT NULL, ItemId STRING(256) NOT NULL,
  Started      INT64 NOT NULL,
  LastWorker   STRING(128),
  LastError    STRING(2048),
  UpdatedAt    TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true),
) PRIMARY KEY (RunId, Shard, ItemId);
