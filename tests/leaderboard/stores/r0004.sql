BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0004');
CREATE TABLE headlines (
	run_id INTEGER NOT NULL, 
	job_key TEXT NOT NULL, 
	suite TEXT NOT NULL, 
	task TEXT NOT NULL, 
	model TEXT NOT NULL, 
	status TEXT NOT NULL, 
	content TEXT NOT NULL, 
	PRIMARY KEY (run_id), 
	CONSTRAINT headlines_job UNIQUE (job_key), 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "headlines" VALUES(1,'63a78cffd2354d42291468bc45907af8dece82b0255c07bae07ef96301f4bd75','glue','glue/mnli','minilm','finished','{"model":"minilm","weights":"revision of minilm","recipe":"bert","recipe_digest":"73735cb009f7","task":"glue/mnli","data":"mini","limit":null,"seed":0,"precision":"float32","status":"finished","fingerprints":{"glue/mnli:train":"40533ce178a6720519bd2797612d1a539bf5d0ffd62e9df5974348a8905c4b1c","glue/mnli:dev":"b619565de32178b5bccf05230663d671848db4da9e9f70aaa1687ea656f9cdbf","glue/mnli:dev_mm":"d427ed498c55da443bd0fd46d3e487c902157f8abfee5431a3c13e1e20a1462e"},"finished":"2026-08-01T12:00:00Z","error":"","start_from":null,"seconds":12.5,"parameters":22713601,"largest_split":0,"scores":[["glue/mnli","dev","accuracy","accuracy",0.8238],["glue/mnli","dev_mm","accuracy","accuracy_mm",0.8152]],"flags":{},"losses":null,"kind":"model","overridden":false,"is_sweep":false,"source":""}');
INSERT INTO "headlines" VALUES(2,'bfa627f92d61f500cdd9e77e505e01096839e92e7d972faf54a3bae6774b1de7','glue','glue/rte','other','diverged','{"model":"other","weights":"revision of other","recipe":"bert","recipe_digest":"73735cb009f7","task":"glue/rte","data":"mini","limit":null,"seed":0,"precision":"float32","status":"diverged","fingerprints":{"glue/rte:train":"c4113ed258440df2f199406c99833d66aac473e2e9b8e07422e17dcb472260c1","glue/rte:dev":"c810ac502e8a6642b28db917a1278c14acdb8227b84bce301600a643b6f2f2e3"},"finished":"2026-08-01T12:00:00Z","error":"the loss became nan at step 7; try a lower learning rate.","start_from":null,"seconds":0.0,"parameters":0,"largest_split":0,"scores":[],"flags":{},"losses":null,"kind":"model","overridden":false,"is_sweep":false,"source":""}');
CREATE TABLE marks (
	id INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	runs TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT marks_runs UNIQUE (kind, runs)
);
CREATE TABLE predictions (
	id INTEGER NOT NULL, 
	run_id INTEGER NOT NULL, 
	task TEXT NOT NULL, 
	split TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	flags TEXT NOT NULL, 
	rows BLOB NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT predictions_split UNIQUE (run_id, task, split), 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "predictions" VALUES(1,1,'glue/mnli','dev','b619565de32178b5bccf05230663d671848db4da9e9f70aaa1687ea656f9cdbf','[]',X'789C7DCB3D0A83401040E1BB4CBDC8FCCFEA55C442932D020B825B8590BB6721363676EF15DFFC81D71326404850D7ADD4DEEFD2FAB5C77EF498661C3231874578880963241C6CF9A693D21D757172899C55D57C942BE53B3A9A063AA90AE760A53F5D7EA6452EFE');
INSERT INTO "predictions" VALUES(2,1,'glue/mnli','dev_mm','d427ed498c55da443bd0fd46d3e487c902157f8abfee5431a3c13e1e20a1462e','[]',X'789C7DCCB10A83401004D07FD9FA90DD9DDDDC9DBF2216D15808A2A05508F9F72CC422368129668A37DD8BE607B5C49468B90FD312FD391DB18E71DBA3B41D376262705465D59215B7C48DF7EF745AF967610528F078A8C2D9AF547FE8BA5DA519A4AA678F70E58C2FED3FB9832ED9');
CREATE TABLE runs (
	id INTEGER NOT NULL, 
	job_key TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	status TEXT NOT NULL, 
	exit_code INTEGER, 
	digest TEXT NOT NULL, 
	model TEXT NOT NULL, 
	weights TEXT NOT NULL, 
	recipe TEXT NOT NULL, 
	recipe_digest TEXT NOT NULL, 
	task TEXT NOT NULL, 
	suite TEXT NOT NULL, 
	data TEXT NOT NULL, 
	"limit" BIGINT, 
	seed BIGINT NOT NULL, 
	precision TEXT NOT NULL, 
	start_from TEXT, 
	seconds DOUBLE, 
	parameters BIGINT, 
	finished TEXT NOT NULL, 
	error TEXT NOT NULL, 
	fingerprints TEXT NOT NULL, 
	job TEXT NOT NULL, 
	curve TEXT, 
	cost TEXT, 
	provenance TEXT, 
	details TEXT NOT NULL, facts TEXT DEFAULT '{}' NOT NULL, facts_digest TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT runs_attempt UNIQUE (job_key, attempt)
);
INSERT INTO "runs" VALUES(1,'63a78cffd2354d42291468bc45907af8dece82b0255c07bae07ef96301f4bd75',1,'finished',NULL,'07b26a055f820d7942faa0fec98c28dc47cdfc7569ad6e299fd056c39ac9d74b','minilm','revision of minilm','bert','73735cb009f7','glue/mnli','glue','mini',NULL,0,'float32',NULL,12.5,22713601,'2026-08-01T12:00:00Z','','{"glue/mnli:train":"40533ce178a6720519bd2797612d1a539bf5d0ffd62e9df5974348a8905c4b1c","glue/mnli:dev":"b619565de32178b5bccf05230663d671848db4da9e9f70aaa1687ea656f9cdbf","glue/mnli:dev_mm":"d427ed498c55da443bd0fd46d3e487c902157f8abfee5431a3c13e1e20a1462e"}','{"model":"minilm","checkpoint":"example/minilm","weights":"revision of minilm","task":"glue/mnli","task_version":1,"data":"mini","fingerprints":{"glue/mnli:train":"40533ce178a6720519bd2797612d1a539bf5d0ffd62e9df5974348a8905c4b1c","glue/mnli:dev":"b619565de32178b5bccf05230663d671848db4da9e9f70aaa1687ea656f9cdbf","glue/mnli:dev_mm":"d427ed498c55da443bd0fd46d3e487c902157f8abfee5431a3c13e1e20a1462e"},"recipe":"bert","settings":{"learning_rate":{"value":2e-05,"source":"a paper"},"epochs":{"value":3,"source":"a paper"},"batch_size":{"value":32,"source":"a paper"},"warmup":{"value":0.1,"source":"a paper"}},"seed":0,"precision":"float32","limit":null,"start_from":null,"plugins":{},"trust_remote_code":false,"allow_pickle":false,"method":1}','[{"step":10,"epoch":0.5,"loss":0.69,"learning_rate":2e-05,"scores":{}},{"step":20,"epoch":1.0,"loss":0.61,"learning_rate":1e-05,"scores":{"accuracy":0.8125}}]','{"seconds":12.5,"train_seconds":10.25,"predict_seconds":1.75,"steps":20,"train_examples_per_second":31.2,"train_tokens":4096,"parameters":22713601,"peak_memory_bytes":536870912}','{"code":{"version":"0.1.0","commit":"0000000000000000000000000000000000000000","dirty":false},"versions":{"python":"3.11.7","torch":"2.13.0"},"machine":{"cpu":"a processor","cores":2,"gpu":null}}','','{"kind":"model","recipe":"bert","own_recipe":true,"overridden":false,"is_sweep":false,"start":null,"source":""}','935f2275ed3468884e651c25631543092205f6e6d0be3d631051443efaf231a3');
INSERT INTO "runs" VALUES(2,'bfa627f92d61f500cdd9e77e505e01096839e92e7d972faf54a3bae6774b1de7',1,'diverged',1,'808c3b728c505135eab3c0c4c7fe963518cf386ad4f33b2221d255889d2e447e','other','revision of other','bert','73735cb009f7','glue/rte','glue','mini',NULL,0,'float32',NULL,NULL,NULL,'2026-08-01T12:00:00Z','the loss became nan at step 7; try a lower learning rate.','{"glue/rte:train":"c4113ed258440df2f199406c99833d66aac473e2e9b8e07422e17dcb472260c1","glue/rte:dev":"c810ac502e8a6642b28db917a1278c14acdb8227b84bce301600a643b6f2f2e3"}','{"model":"other","checkpoint":"example/other","weights":"revision of other","task":"glue/rte","task_version":1,"data":"mini","fingerprints":{"glue/rte:train":"c4113ed258440df2f199406c99833d66aac473e2e9b8e07422e17dcb472260c1","glue/rte:dev":"c810ac502e8a6642b28db917a1278c14acdb8227b84bce301600a643b6f2f2e3"},"recipe":"bert","settings":{"learning_rate":{"value":2e-05,"source":"a paper"},"epochs":{"value":3,"source":"a paper"},"batch_size":{"value":32,"source":"a paper"},"warmup":{"value":0.1,"source":"a paper"}},"seed":0,"precision":"float32","limit":null,"start_from":null,"plugins":{},"trust_remote_code":false,"allow_pickle":false,"method":1}',NULL,NULL,NULL,'step 6: 4.2
step 7: nan','{"kind":"model","recipe":"bert","own_recipe":true,"overridden":false,"is_sweep":false,"start":null,"source":""}','ba5ceb9309a8e3ff5e34df3c7258e4fcacbfff7417d3ca564b02e04066008e70');
CREATE TABLE scores (
	id INTEGER NOT NULL, 
	run_id INTEGER NOT NULL, 
	task TEXT NOT NULL, 
	split TEXT NOT NULL, 
	name TEXT NOT NULL, 
	value DOUBLE NOT NULL, metric TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT scores_metric UNIQUE (run_id, task, split, name), 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "scores" VALUES(1,1,'glue/mnli','dev','accuracy',0.8238,'accuracy');
INSERT INTO "scores" VALUES(2,1,'glue/mnli','dev_mm','accuracy_mm',0.8152,'accuracy');
CREATE INDEX runs_newest ON runs (job_key, status, attempt);
CREATE INDEX headlines_suite ON headlines (suite, run_id);
CREATE INDEX headlines_task ON headlines (task);
CREATE INDEX headlines_model ON headlines (model);
COMMIT;
