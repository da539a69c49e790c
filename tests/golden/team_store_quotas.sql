BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('quotas');
CREATE TABLE answer (
	id VARCHAR NOT NULL, 
	room_id VARCHAR NOT NULL, 
	author_id VARCHAR NOT NULL, 
	question VARCHAR NOT NULL, 
	attempt INTEGER NOT NULL, 
	text TEXT NOT NULL, 
	digest VARCHAR, 
	score DOUBLE NOT NULL, 
	most DOUBLE NOT NULL, 
	verdict JSON NOT NULL, 
	created DOUBLE NOT NULL, 
	late BOOLEAN NOT NULL, 
	CONSTRAINT pk_answer PRIMARY KEY (id), 
	CONSTRAINT fk_answer_author_id_user FOREIGN KEY(author_id) REFERENCES user (id), 
	CONSTRAINT fk_answer_digest_plan FOREIGN KEY(digest) REFERENCES "plan" (digest), 
	CONSTRAINT fk_answer_room_id_work FOREIGN KEY(room_id) REFERENCES work (room_id)
);
INSERT INTO "answer" VALUES('answer-9','room-9','user-9','line
break	tab',141387,'Ünïcode 漢字 🧩','plan-9',1.79769313486231562234e+308,-1.5,'{"empty": ""}',-1.5,0);
INSERT INTO "answer" VALUES('answer-8','room-8','user-8','',992902,'<b>&amp;','plan-8',1.7636500001234560013e+09,1.0e-300,'{"empty": ""}',-1.5,1);
CREATE TABLE assignment (
	id VARCHAR NOT NULL, 
	project_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	exercise TEXT NOT NULL, 
	outline JSON NOT NULL, 
	first VARCHAR NOT NULL, 
	deadline DOUBLE, 
	zone VARCHAR NOT NULL, 
	size INTEGER NOT NULL, 
	ranked VARCHAR NOT NULL, 
	"by" VARCHAR NOT NULL, 
	created DOUBLE NOT NULL, 
	released DOUBLE, 
	withdrawn DOUBLE, 
	CONSTRAINT pk_assignment PRIMARY KEY (id), 
	CONSTRAINT fk_assignment_by_user FOREIGN KEY("by") REFERENCES user (id), 
	CONSTRAINT fk_assignment_first_plan FOREIGN KEY(first) REFERENCES "plan" (digest), 
	CONSTRAINT fk_assignment_project_id_project FOREIGN KEY(project_id) REFERENCES project (id)
);
INSERT INTO "assignment" VALUES('assignment-9','project-9','line
break	tab','"quotes" \ and ''those''','{}','plan-9',NULL,'   ',136550,'Ünïcode 漢字 🧩','user-9',3.00000000000000044408e-01,3.0,1.7636500001234560013e+09);
INSERT INTO "assignment" VALUES('assignment-8','project-8','<b>&amp;','"quotes" \ and ''those''','{"empty": ""}','plan-8',1.7636500001234560013e+09,'   ',246941,'   ','user-8',1.0e-300,1.7636500001234560013e+09,1.79769313486231562234e+308);
CREATE TABLE audit (
	id INTEGER NOT NULL, 
	created DOUBLE NOT NULL, 
	user_id VARCHAR, 
	project_id VARCHAR, 
	action VARCHAR NOT NULL, 
	subject VARCHAR NOT NULL, 
	details JSON NOT NULL, 
	address VARCHAR NOT NULL, 
	CONSTRAINT pk_audit PRIMARY KEY (id)
);
INSERT INTO "audit" VALUES(1,1.79769313486231562234e+308,'"quotes" \ and ''those''',NULL,'','"quotes" \ and ''those''','{"a": [1, 2.5, null, true, {"\u00fc": "\u6f22"}]}','   ');
INSERT INTO "audit" VALUES(2,-1.5,'line
break	tab','Ünïcode 漢字 🧩','','Ünïcode 漢字 🧩','{"a": [1, 2.5, null, true, {"\u00fc": "\u6f22"}]}','Ünïcode 漢字 🧩');
CREATE TABLE baseline (
	assignment_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	question VARCHAR NOT NULL, 
	detail VARCHAR NOT NULL, 
	digest VARCHAR, 
	"right" BOOLEAN NOT NULL, 
	reason TEXT NOT NULL, 
	job_id VARCHAR, 
	CONSTRAINT pk_baseline PRIMARY KEY (assignment_id, name), 
	CONSTRAINT fk_baseline_assignment_id_assignment FOREIGN KEY(assignment_id) REFERENCES assignment (id), 
	CONSTRAINT fk_baseline_digest_plan FOREIGN KEY(digest) REFERENCES "plan" (digest), 
	CONSTRAINT fk_baseline_job_id_job FOREIGN KEY(job_id) REFERENCES job (id)
);
INSERT INTO "baseline" VALUES('assignment-9','baseline-9','"quotes" \ and ''those''','   ','plan-9',0,'plain','job-9');
INSERT INTO "baseline" VALUES('assignment-8','baseline-8','','Ünïcode 漢字 🧩','plan-8',0,'Ünïcode 漢字 🧩','job-8');
CREATE TABLE catalogue (
	project_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	hardware VARCHAR NOT NULL, 
	dollars_per_device_hour DOUBLE, 
	engine VARCHAR NOT NULL, 
	options JSON NOT NULL, 
	note TEXT NOT NULL, 
	CONSTRAINT pk_catalogue PRIMARY KEY (project_id, name), 
	CONSTRAINT fk_catalogue_project_id_project FOREIGN KEY(project_id) REFERENCES project (id)
);
INSERT INTO "catalogue" VALUES('project-9','catalogue-9','',NULL,'"quotes" \ and ''those''','{"empty": ""}','<b>&amp;');
INSERT INTO "catalogue" VALUES('project-8','catalogue-8','<b>&amp;',-1.5,'plain','{"a": [1, 2.5, null, true, {"\u00fc": "\u6f22"}]}','');
CREATE TABLE comment (
	id VARCHAR NOT NULL, 
	room_id VARCHAR NOT NULL, 
	node INTEGER NOT NULL, 
	author_id VARCHAR NOT NULL, 
	text TEXT NOT NULL, 
	created DOUBLE NOT NULL, 
	removed DOUBLE, 
	CONSTRAINT pk_comment PRIMARY KEY (id), 
	CONSTRAINT fk_comment_author_id_user FOREIGN KEY(author_id) REFERENCES user (id), 
	CONSTRAINT fk_comment_room_id_room FOREIGN KEY(room_id) REFERENCES room (id)
);
INSERT INTO "comment" VALUES('comment-9','room-9',220805,'user-9','<b>&amp;',3.00000000000000044408e-01,3.00000000000000044408e-01);
INSERT INTO "comment" VALUES('comment-8','room-8',570672,'user-8','"quotes" \ and ''those''',1.7636500001234560013e+09,NULL);
CREATE TABLE entry (
	id VARCHAR NOT NULL, 
	project_id VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	note TEXT NOT NULL, 
	author_id VARCHAR NOT NULL, 
	room_id VARCHAR, 
	forked_from VARCHAR, 
	created DOUBLE NOT NULL, 
	withdrawn DOUBLE, 
	CONSTRAINT pk_entry PRIMARY KEY (id), 
	CONSTRAINT fk_entry_author_id_user FOREIGN KEY(author_id) REFERENCES user (id), 
	CONSTRAINT fk_entry_digest_plan FOREIGN KEY(digest) REFERENCES "plan" (digest), 
	CONSTRAINT fk_entry_forked_from_entry FOREIGN KEY(forked_from) REFERENCES entry (id), 
	CONSTRAINT fk_entry_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT fk_entry_room_id_room FOREIGN KEY(room_id) REFERENCES room (id)
);
INSERT INTO "entry" VALUES('entry-9','project-9','plan-9','line
break	tab','plain','user-9','room-9',NULL,1.0e-300,NULL);
INSERT INTO "entry" VALUES('entry-8','project-8','plan-8','line
break	tab','line
break	tab','user-8','room-8','entry-9',1.79769313486231562234e+308,NULL);
CREATE TABLE figures (
	digest VARCHAR NOT NULL, 
	tier VARCHAR NOT NULL, 
	version VARCHAR NOT NULL, 
	"values" JSON NOT NULL, 
	thumbnail TEXT NOT NULL, 
	job_id VARCHAR, 
	created DOUBLE NOT NULL, 
	CONSTRAINT pk_figures PRIMARY KEY (digest, tier), 
	CONSTRAINT fk_figures_digest_plan FOREIGN KEY(digest) REFERENCES "plan" (digest)
);
INSERT INTO "figures" VALUES('plan-9','figures-9','plain','{}','<b>&amp;','<b>&amp;',3.0);
INSERT INTO "figures" VALUES('plan-8','figures-8','<b>&amp;','{}','','   ',-1.5);
CREATE TABLE guest (
	share_id VARCHAR NOT NULL, 
	user_id VARCHAR NOT NULL, 
	since DOUBLE NOT NULL, 
	CONSTRAINT pk_guest PRIMARY KEY (share_id, user_id), 
	CONSTRAINT fk_guest_share_id_share FOREIGN KEY(share_id) REFERENCES share (id), 
	CONSTRAINT fk_guest_user_id_user FOREIGN KEY(user_id) REFERENCES user (id)
);
INSERT INTO "guest" VALUES('share-9','user-9',1.7636500001234560013e+09);
INSERT INTO "guest" VALUES('share-8','user-8',1.79769313486231562234e+308);
CREATE TABLE identity (
	issuer VARCHAR NOT NULL, 
	subject VARCHAR NOT NULL, 
	user_id VARCHAR NOT NULL, 
	CONSTRAINT pk_identity PRIMARY KEY (issuer, subject), 
	CONSTRAINT fk_identity_user_id_user FOREIGN KEY(user_id) REFERENCES user (id)
);
INSERT INTO "identity" VALUES('identity-9','identity-9','user-9');
INSERT INTO "identity" VALUES('identity-8','identity-8','user-8');
CREATE TABLE invitation (
	digest VARCHAR NOT NULL, 
	project_id VARCHAR, 
	role VARCHAR, 
	admin BOOLEAN NOT NULL, 
	user_id VARCHAR, 
	note VARCHAR NOT NULL, 
	"by" VARCHAR, 
	created DOUBLE NOT NULL, 
	expires DOUBLE NOT NULL, 
	used_by VARCHAR, 
	CONSTRAINT pk_invitation PRIMARY KEY (digest), 
	CONSTRAINT fk_invitation_by_user FOREIGN KEY("by") REFERENCES user (id), 
	CONSTRAINT fk_invitation_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT fk_invitation_used_by_user FOREIGN KEY(used_by) REFERENCES user (id), 
	CONSTRAINT fk_invitation_user_id_user FOREIGN KEY(user_id) REFERENCES user (id)
);
INSERT INTO "invitation" VALUES('invitation-9','project-9',NULL,0,'user-9','line
break	tab','user-9',1.0e-300,1.0e-300,'user-9');
INSERT INTO "invitation" VALUES('invitation-8','project-8',NULL,1,'user-8','<b>&amp;','user-8',1.0e-300,-1.5,'user-8');
CREATE TABLE job (
	id VARCHAR NOT NULL, 
	project_id VARCHAR NOT NULL, 
	author_id VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	room_id VARCHAR, 
	kind VARCHAR NOT NULL, 
	engine VARCHAR NOT NULL, 
	spec JSON NOT NULL, 
	state VARCHAR NOT NULL, 
	native VARCHAR, 
	summary JSON NOT NULL, 
	problem TEXT NOT NULL, 
	created DOUBLE NOT NULL, 
	started DOUBLE, 
	ended DOUBLE, 
	cancel_asked DOUBLE, 
	CONSTRAINT pk_job PRIMARY KEY (id), 
	CONSTRAINT fk_job_author_id_user FOREIGN KEY(author_id) REFERENCES user (id), 
	CONSTRAINT fk_job_digest_plan FOREIGN KEY(digest) REFERENCES "plan" (digest), 
	CONSTRAINT fk_job_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT fk_job_room_id_room FOREIGN KEY(room_id) REFERENCES room (id)
);
INSERT INTO "job" VALUES('job-9','project-9','user-9','plan-9','room-9','','"quotes" \ and ''those''','{}','',NULL,'{"a": [1, 2.5, null, true, {"\u00fc": "\u6f22"}]}','Ünïcode 漢字 🧩',-1.5,3.0,1.7636500001234560013e+09,NULL);
INSERT INTO "job" VALUES('job-8','project-8','user-8','plan-8','room-8','<b>&amp;','Ünïcode 漢字 🧩','{}','   ','   ','{}','line
break	tab',1.7636500001234560013e+09,NULL,1.79769313486231562234e+308,3.00000000000000044408e-01);
CREATE TABLE log (
	room_id VARCHAR NOT NULL, 
	seq INTEGER NOT NULL, 
	author_id VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	body JSON NOT NULL, 
	digest VARCHAR NOT NULL, 
	created DOUBLE NOT NULL, 
	CONSTRAINT pk_log PRIMARY KEY (room_id, seq), 
	CONSTRAINT fk_log_author_id_user FOREIGN KEY(author_id) REFERENCES user (id), 
	CONSTRAINT fk_log_room_id_room FOREIGN KEY(room_id) REFERENCES room (id)
);
INSERT INTO "log" VALUES('room-9',1,'user-9','"quotes" \ and ''those''','{"empty": ""}','"quotes" \ and ''those''',1.7636500001234560013e+09);
INSERT INTO "log" VALUES('room-8',2,'user-8','   ','{"empty": ""}','line
break	tab',3.0);
CREATE TABLE login (
	digest VARCHAR NOT NULL, 
	user_id VARCHAR NOT NULL, 
	way VARCHAR NOT NULL, 
	agent VARCHAR NOT NULL, 
	created DOUBLE NOT NULL, 
	expires DOUBLE NOT NULL, 
	revoked DOUBLE, 
	CONSTRAINT pk_login PRIMARY KEY (digest), 
	CONSTRAINT fk_login_user_id_user FOREIGN KEY(user_id) REFERENCES user (id)
);
INSERT INTO "login" VALUES('login-9','user-9','Ünïcode 漢字 🧩','<b>&amp;',-1.5,3.0,1.0e-300);
INSERT INTO "login" VALUES('login-8','user-8','','Ünïcode 漢字 🧩',1.0e-300,1.0e-300,1.79769313486231562234e+308);
CREATE TABLE member (
	project_id VARCHAR NOT NULL, 
	user_id VARCHAR NOT NULL, 
	role VARCHAR NOT NULL, 
	since DOUBLE NOT NULL, 
	CONSTRAINT pk_member PRIMARY KEY (project_id, user_id), 
	CONSTRAINT fk_member_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT fk_member_user_id_user FOREIGN KEY(user_id) REFERENCES user (id)
);
INSERT INTO "member" VALUES('project-9','user-9','   ',1.0e-300);
INSERT INTO "member" VALUES('project-8','user-8','line
break	tab',1.79769313486231562234e+308);
CREATE TABLE participant (
	assignment_id VARCHAR NOT NULL, 
	user_id VARCHAR NOT NULL, 
	room_id VARCHAR NOT NULL, 
	since DOUBLE NOT NULL, 
	CONSTRAINT pk_participant PRIMARY KEY (assignment_id, user_id), 
	CONSTRAINT fk_participant_assignment_id_assignment FOREIGN KEY(assignment_id) REFERENCES assignment (id), 
	CONSTRAINT fk_participant_room_id_work FOREIGN KEY(room_id) REFERENCES work (room_id), 
	CONSTRAINT fk_participant_user_id_user FOREIGN KEY(user_id) REFERENCES user (id)
);
INSERT INTO "participant" VALUES('assignment-9','user-9','room-9',1.0e-300);
INSERT INTO "participant" VALUES('assignment-8','user-8','room-8',1.0e-300);
CREATE TABLE password (
	user_id VARCHAR NOT NULL, 
	hash VARCHAR NOT NULL, 
	changed DOUBLE NOT NULL, 
	CONSTRAINT pk_password PRIMARY KEY (user_id), 
	CONSTRAINT fk_password_user_id_user FOREIGN KEY(user_id) REFERENCES user (id)
);
INSERT INTO "password" VALUES('user-9','plain',3.00000000000000044408e-01);
INSERT INTO "password" VALUES('user-8','line
break	tab',1.7636500001234560013e+09);
CREATE TABLE "plan" (
	digest VARCHAR NOT NULL, 
	document TEXT NOT NULL, 
	target VARCHAR NOT NULL, 
	mesh VARCHAR NOT NULL, 
	devices INTEGER NOT NULL, 
	hardware VARCHAR NOT NULL, 
	layout TEXT NOT NULL, 
	dims JSON NOT NULL, 
	created DOUBLE NOT NULL, 
	CONSTRAINT pk_plan PRIMARY KEY (digest)
);
INSERT INTO "plan" VALUES('plan-9','   ','plain','',838234,'line
break	tab','','{"empty": ""}',1.7636500001234560013e+09);
INSERT INTO "plan" VALUES('plan-8','Ünïcode 漢字 🧩','line
break	tab','plain',765284,'plain','   ','{"empty": ""}',-1.5);
CREATE TABLE program (
	id VARCHAR NOT NULL, 
	project_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	target VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	locator VARCHAR NOT NULL, 
	digest VARCHAR, 
	state VARCHAR NOT NULL, 
	problem TEXT NOT NULL, 
	"by" VARCHAR NOT NULL, 
	created DOUBLE NOT NULL, 
	approved_by VARCHAR, 
	approved DOUBLE, size INTEGER DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_program PRIMARY KEY (id), 
	CONSTRAINT fk_program_approved_by_user FOREIGN KEY(approved_by) REFERENCES user (id), 
	CONSTRAINT fk_program_by_user FOREIGN KEY("by") REFERENCES user (id), 
	CONSTRAINT fk_program_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT uq_program_project_id UNIQUE (project_id, name)
);
INSERT INTO "program" VALUES('program-9','project-9','program-9','   ','plain','plain','   ','Ünïcode 漢字 🧩','plain','user-9',1.7636500001234560013e+09,'user-9',1.7636500001234560013e+09,731560);
INSERT INTO "program" VALUES('program-8','project-8','program-8','','<b>&amp;','plain',NULL,'Ünïcode 漢字 🧩','','user-8',1.7636500001234560013e+09,'user-8',NULL,665845);
CREATE TABLE project (
	id VARCHAR NOT NULL, 
	slug VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	description TEXT NOT NULL, 
	personal_of VARCHAR, 
	created DOUBLE NOT NULL, 
	archived DOUBLE, 
	CONSTRAINT pk_project PRIMARY KEY (id), 
	CONSTRAINT fk_project_personal_of_user FOREIGN KEY(personal_of) REFERENCES user (id), 
	CONSTRAINT uq_project_personal_of UNIQUE (personal_of), 
	CONSTRAINT uq_project_slug UNIQUE (slug)
);
INSERT INTO "project" VALUES('project-9','project-9','"quotes" \ and ''those''','plain','user-9',-1.5,3.0);
INSERT INTO "project" VALUES('project-8','project-8','plain','','user-8',-1.5,1.7636500001234560013e+09);
CREATE TABLE room (
	id VARCHAR NOT NULL, 
	project_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	program_id VARCHAR, 
	first VARCHAR NOT NULL, 
	"by" VARCHAR NOT NULL, 
	created DOUBLE NOT NULL, 
	touched DOUBLE NOT NULL, 
	closed DOUBLE, 
	CONSTRAINT pk_room PRIMARY KEY (id), 
	CONSTRAINT fk_room_by_user FOREIGN KEY("by") REFERENCES user (id), 
	CONSTRAINT fk_room_first_plan FOREIGN KEY(first) REFERENCES "plan" (digest), 
	CONSTRAINT fk_room_program_id_program FOREIGN KEY(program_id) REFERENCES program (id), 
	CONSTRAINT fk_room_project_id_project FOREIGN KEY(project_id) REFERENCES project (id)
);
INSERT INTO "room" VALUES('room-9','project-9','plain','program-9','plan-9','user-9',-1.5,3.00000000000000044408e-01,NULL);
INSERT INTO "room" VALUES('room-8','project-8','plain','program-8','plan-8','user-8',1.0e-300,1.0e-300,1.79769313486231562234e+308);
CREATE TABLE setting (
	"key" VARCHAR NOT NULL, 
	value JSON NOT NULL, 
	CONSTRAINT pk_setting PRIMARY KEY ("key")
);
INSERT INTO "setting" VALUES('setting-9','{"a": [1, 2.5, null, true, {"\u00fc": "\u6f22"}]}');
INSERT INTO "setting" VALUES('setting-8','{"empty": ""}');
CREATE TABLE share (
	id VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	project_id VARCHAR NOT NULL, 
	room_id VARCHAR, 
	entry_id VARCHAR, 
	role VARCHAR NOT NULL, 
	"by" VARCHAR NOT NULL, 
	created DOUBLE NOT NULL, 
	expires DOUBLE NOT NULL, 
	revoked DOUBLE, 
	CONSTRAINT pk_share PRIMARY KEY (id), 
	CONSTRAINT fk_share_by_user FOREIGN KEY("by") REFERENCES user (id), 
	CONSTRAINT fk_share_entry_id_entry FOREIGN KEY(entry_id) REFERENCES entry (id), 
	CONSTRAINT fk_share_project_id_project FOREIGN KEY(project_id) REFERENCES project (id), 
	CONSTRAINT fk_share_room_id_room FOREIGN KEY(room_id) REFERENCES room (id), 
	CONSTRAINT uq_share_digest UNIQUE (digest)
);
INSERT INTO "share" VALUES('share-9','share-9','project-9','room-9','entry-9','<b>&amp;','user-9',1.79769313486231562234e+308,1.79769313486231562234e+308,3.0);
INSERT INTO "share" VALUES('share-8','share-8','project-8','room-8','entry-8','','user-8',1.79769313486231562234e+308,3.00000000000000044408e-01,3.0);
CREATE TABLE token (
	id VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	user_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	scopes JSON NOT NULL, 
	created DOUBLE NOT NULL, 
	expires DOUBLE, 
	used DOUBLE, 
	revoked DOUBLE, 
	CONSTRAINT pk_token PRIMARY KEY (id), 
	CONSTRAINT fk_token_user_id_user FOREIGN KEY(user_id) REFERENCES user (id), 
	CONSTRAINT uq_token_digest UNIQUE (digest)
);
INSERT INTO "token" VALUES('token-9','token-9','user-9','Ünïcode 漢字 🧩','{"empty": ""}',1.7636500001234560013e+09,1.79769313486231562234e+308,NULL,-1.5);
INSERT INTO "token" VALUES('token-8','token-8','user-8','','{}',-1.5,NULL,3.00000000000000044408e-01,3.0);
CREATE TABLE user (
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	display VARCHAR NOT NULL, 
	email VARCHAR, 
	admin BOOLEAN NOT NULL, 
	active BOOLEAN NOT NULL, 
	created DOUBLE NOT NULL, 
	CONSTRAINT pk_user PRIMARY KEY (id), 
	CONSTRAINT uq_user_name UNIQUE (name)
);
INSERT INTO "user" VALUES('user-9','user-9','plain','line
break	tab',0,0,1.7636500001234560013e+09);
INSERT INTO "user" VALUES('user-8','user-8','"quotes" \ and ''those''','',1,0,1.7636500001234560013e+09);
CREATE TABLE work (
	room_id VARCHAR NOT NULL, 
	assignment_id VARCHAR NOT NULL, 
	card JSON NOT NULL, 
	thumbnail TEXT NOT NULL, 
	shown DOUBLE, 
	remark TEXT NOT NULL, 
	points DOUBLE, 
	CONSTRAINT pk_work PRIMARY KEY (room_id), 
	CONSTRAINT fk_work_assignment_id_assignment FOREIGN KEY(assignment_id) REFERENCES assignment (id), 
	CONSTRAINT fk_work_room_id_room FOREIGN KEY(room_id) REFERENCES room (id)
);
INSERT INTO "work" VALUES('room-9','assignment-9','{"a": [1, 2.5, null, true, {"\u00fc": "\u6f22"}]}','"quotes" \ and ''those''',-1.5,'Ünïcode 漢字 🧩',3.00000000000000044408e-01);
INSERT INTO "work" VALUES('room-8','assignment-8','{"a": [1, 2.5, null, true, {"\u00fc": "\u6f22"}]}','<b>&amp;',NULL,'<b>&amp;',NULL);
CREATE INDEX ix_audit_created ON audit (created);
CREATE INDEX ix_audit_project_id ON audit (project_id);
CREATE INDEX ix_identity_user_id ON identity (user_id);
CREATE INDEX ix_login_user_id ON login (user_id);
CREATE INDEX ix_token_user_id ON token (user_id);
CREATE INDEX ix_assignment_project_id ON assignment (project_id);
CREATE INDEX ix_invitation_used_by ON invitation (used_by);
CREATE INDEX ix_member_user_id ON member (user_id);
CREATE INDEX ix_program_project_id ON program (project_id);
CREATE INDEX ix_room_project_id ON room (project_id);
CREATE INDEX ix_comment_node ON comment (room_id, node);
CREATE INDEX ix_entry_digest ON entry (digest);
CREATE INDEX ix_entry_project_id ON entry (project_id);
CREATE INDEX ix_job_author_id ON job (author_id);
CREATE INDEX ix_job_digest ON job (digest);
CREATE INDEX ix_job_project_id ON job (project_id);
CREATE INDEX ix_job_state ON job (state);
CREATE INDEX ix_work_assignment_id ON work (assignment_id);
CREATE INDEX ix_answer_room_id ON answer (room_id);
CREATE INDEX ix_baseline_job_id ON baseline (job_id);
CREATE INDEX ix_participant_room_id ON participant (room_id);
CREATE INDEX ix_participant_user_id ON participant (user_id);
CREATE INDEX ix_share_project_id ON share (project_id);
CREATE INDEX ix_guest_user_id ON guest (user_id);
CREATE INDEX ix_answer_author_id ON answer (author_id);
CREATE INDEX ix_comment_author_id ON comment (author_id);
CREATE INDEX ix_entry_author_id ON entry (author_id);
CREATE INDEX ix_log_author_id ON log (author_id);
CREATE INDEX ix_program_by ON program ("by");
CREATE INDEX ix_room_by ON room ("by");
COMMIT;
