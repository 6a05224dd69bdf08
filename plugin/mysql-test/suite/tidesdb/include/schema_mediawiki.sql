-- MediaWiki 1.42, after its maintenance/tables.json for MySQL; the tables of a wiki without extensions that its pages,
-- texts, links, categories, files, users, logs, jobs and caches need. Strings are VARBINARY, as MediaWiki wants them.
SET NAMES utf8mb4;
CREATE TABLE site (site_id INT UNSIGNED AUTO_INCREMENT NOT NULL, site_global_key VARBINARY(64) NOT NULL, site_type VARBINARY(32) NOT NULL,
  site_group VARBINARY(32) NOT NULL, site_source VARBINARY(32) NOT NULL, site_language VARBINARY(35) NOT NULL, site_protocol VARBINARY(32) NOT NULL,
  site_domain VARBINARY(255) NOT NULL, site_data BLOB NOT NULL, site_forward TINYINT(1) NOT NULL, site_config BLOB NOT NULL,
  UNIQUE INDEX site_global_key (site_global_key), PRIMARY KEY(site_id)) DEFAULT CHARSET=binary;
CREATE TABLE site_identifiers (si_type VARBINARY(32) NOT NULL, si_key VARBINARY(32) NOT NULL, si_site INT UNSIGNED NOT NULL,
  INDEX si_site (si_site), INDEX si_key (si_key), PRIMARY KEY(si_type, si_key)) DEFAULT CHARSET=binary;
CREATE TABLE updatelog (ul_key VARCHAR(255) NOT NULL, ul_value BLOB DEFAULT NULL, PRIMARY KEY(ul_key)) DEFAULT CHARSET=binary;
CREATE TABLE actor (actor_id BIGINT UNSIGNED AUTO_INCREMENT NOT NULL, actor_user INT UNSIGNED DEFAULT NULL, actor_name VARBINARY(255) NOT NULL,
  UNIQUE INDEX actor_user (actor_user), UNIQUE INDEX actor_name (actor_name), PRIMARY KEY(actor_id)) DEFAULT CHARSET=binary;
CREATE TABLE user (user_id INT UNSIGNED AUTO_INCREMENT NOT NULL, user_name VARBINARY(255) DEFAULT '' NOT NULL, user_real_name VARBINARY(255) DEFAULT '' NOT NULL,
  user_password TINYBLOB NOT NULL, user_newpassword TINYBLOB NOT NULL, user_newpass_time BINARY(14) DEFAULT NULL, user_email TINYBLOB NOT NULL,
  user_touched BINARY(14) NOT NULL, user_token BINARY(32) DEFAULT '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' NOT NULL,
  user_email_authenticated BINARY(14) DEFAULT NULL, user_email_token BINARY(32) DEFAULT NULL, user_email_token_expires BINARY(14) DEFAULT NULL,
  user_registration BINARY(14) DEFAULT NULL, user_editcount INT UNSIGNED DEFAULT NULL, user_password_expires VARBINARY(14) DEFAULT NULL,
  user_is_temp TINYINT(1) DEFAULT 0 NOT NULL,
  UNIQUE INDEX user_name (user_name), INDEX user_email_token (user_email_token), INDEX user_email (user_email(50)), PRIMARY KEY(user_id)) DEFAULT CHARSET=binary;
CREATE TABLE user_groups (ug_user INT UNSIGNED DEFAULT 0 NOT NULL, ug_group VARBINARY(255) DEFAULT '' NOT NULL, ug_expiry VARBINARY(14) DEFAULT NULL,
  INDEX ug_group (ug_group), INDEX ug_expiry (ug_expiry), PRIMARY KEY(ug_user, ug_group)) DEFAULT CHARSET=binary;
CREATE TABLE user_properties (up_user INT UNSIGNED NOT NULL, up_property VARBINARY(255) NOT NULL, up_value BLOB DEFAULT NULL,
  INDEX up_property (up_property), PRIMARY KEY(up_user, up_property)) DEFAULT CHARSET=binary;
CREATE TABLE user_newtalk (user_id INT UNSIGNED DEFAULT 0 NOT NULL, user_ip VARBINARY(40) DEFAULT '' NOT NULL, user_last_timestamp BINARY(14) DEFAULT NULL,
  INDEX un_user_id (user_id), INDEX un_user_ip (user_ip)) DEFAULT CHARSET=binary;
CREATE TABLE bot_passwords (bp_user INT UNSIGNED NOT NULL, bp_app_id VARBINARY(32) NOT NULL, bp_password TINYBLOB NOT NULL,
  bp_token BINARY(32) DEFAULT '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' NOT NULL, bp_restrictions BLOB NOT NULL, bp_grants BLOB NOT NULL,
  PRIMARY KEY(bp_user, bp_app_id)) DEFAULT CHARSET=binary;
CREATE TABLE page (page_id INT UNSIGNED AUTO_INCREMENT NOT NULL, page_namespace INT NOT NULL, page_title VARBINARY(255) NOT NULL,
  page_is_redirect TINYINT UNSIGNED DEFAULT 0 NOT NULL, page_is_new TINYINT UNSIGNED DEFAULT 0 NOT NULL, page_random DOUBLE PRECISION UNSIGNED NOT NULL,
  page_touched BINARY(14) NOT NULL, page_links_updated VARBINARY(14) DEFAULT NULL, page_latest INT UNSIGNED NOT NULL, page_len INT UNSIGNED NOT NULL,
  page_content_model VARBINARY(32) DEFAULT NULL, page_lang VARBINARY(35) DEFAULT NULL,
  UNIQUE INDEX page_name_title (page_namespace, page_title), INDEX page_random (page_random), INDEX page_len (page_len),
  INDEX page_redirect_namespace_len (page_is_redirect, page_namespace, page_len), PRIMARY KEY(page_id)) DEFAULT CHARSET=binary;
CREATE TABLE page_props (pp_page INT UNSIGNED NOT NULL, pp_propname VARBINARY(60) NOT NULL, pp_value BLOB NOT NULL, pp_sortkey FLOAT DEFAULT NULL,
  UNIQUE INDEX pp_propname_page (pp_propname, pp_page), UNIQUE INDEX pp_propname_sortkey_page (pp_propname, pp_sortkey, pp_page), PRIMARY KEY(pp_page, pp_propname)) DEFAULT CHARSET=binary;
CREATE TABLE page_restrictions (pr_id INT UNSIGNED AUTO_INCREMENT NOT NULL, pr_page INT UNSIGNED NOT NULL, pr_type VARBINARY(60) NOT NULL, pr_level VARBINARY(60) NOT NULL,
  pr_cascade TINYINT NOT NULL, pr_expiry VARBINARY(14) DEFAULT NULL, UNIQUE INDEX pr_pagetype (pr_page, pr_type), INDEX pr_typelevel (pr_type, pr_level),
  INDEX pr_level (pr_level), INDEX pr_cascade (pr_cascade), PRIMARY KEY(pr_id)) DEFAULT CHARSET=binary;
CREATE TABLE redirect (rd_from INT UNSIGNED DEFAULT 0 NOT NULL, rd_namespace INT DEFAULT 0 NOT NULL, rd_title VARBINARY(255) DEFAULT '' NOT NULL,
  rd_interwiki VARCHAR(32) DEFAULT NULL, rd_fragment VARBINARY(255) DEFAULT NULL, INDEX rd_ns_title (rd_namespace, rd_title, rd_from), PRIMARY KEY(rd_from)) DEFAULT CHARSET=binary;
CREATE TABLE revision (rev_id BIGINT UNSIGNED AUTO_INCREMENT NOT NULL, rev_page INT UNSIGNED NOT NULL, rev_comment_id BIGINT UNSIGNED DEFAULT 0 NOT NULL,
  rev_actor BIGINT UNSIGNED DEFAULT 0 NOT NULL, rev_timestamp BINARY(14) NOT NULL, rev_minor_edit TINYINT UNSIGNED DEFAULT 0 NOT NULL,
  rev_deleted TINYINT UNSIGNED DEFAULT 0 NOT NULL, rev_len INT UNSIGNED DEFAULT NULL, rev_parent_id BIGINT UNSIGNED DEFAULT NULL, rev_sha1 VARBINARY(32) DEFAULT '' NOT NULL,
  INDEX rev_timestamp (rev_timestamp), INDEX rev_page_timestamp (rev_page, rev_timestamp), INDEX rev_actor_timestamp (rev_actor, rev_timestamp, rev_id),
  INDEX rev_page_actor_timestamp (rev_page, rev_actor, rev_timestamp), PRIMARY KEY(rev_id)) DEFAULT CHARSET=binary;
CREATE TABLE slots (slot_revision_id BIGINT UNSIGNED NOT NULL, slot_role_id SMALLINT UNSIGNED NOT NULL, slot_content_id BIGINT UNSIGNED NOT NULL,
  slot_origin BIGINT UNSIGNED NOT NULL, INDEX slot_revision_origin_role (slot_revision_id, slot_origin, slot_role_id), PRIMARY KEY(slot_revision_id, slot_role_id)) DEFAULT CHARSET=binary;
CREATE TABLE slot_roles (role_id INT AUTO_INCREMENT NOT NULL, role_name VARBINARY(64) NOT NULL, UNIQUE INDEX role_name (role_name), PRIMARY KEY(role_id)) DEFAULT CHARSET=binary;
CREATE TABLE content (content_id BIGINT UNSIGNED AUTO_INCREMENT NOT NULL, content_size INT UNSIGNED NOT NULL, content_sha1 VARBINARY(32) NOT NULL,
  content_model SMALLINT UNSIGNED NOT NULL, content_address VARBINARY(255) NOT NULL, PRIMARY KEY(content_id)) DEFAULT CHARSET=binary;
CREATE TABLE content_models (model_id INT AUTO_INCREMENT NOT NULL, model_name VARBINARY(64) NOT NULL, UNIQUE INDEX model_name (model_name), PRIMARY KEY(model_id)) DEFAULT CHARSET=binary;
CREATE TABLE text (old_id INT UNSIGNED AUTO_INCREMENT NOT NULL, old_text MEDIUMBLOB NOT NULL, old_flags TINYBLOB NOT NULL, PRIMARY KEY(old_id)) DEFAULT CHARSET=binary;
CREATE TABLE comment (comment_id BIGINT UNSIGNED AUTO_INCREMENT NOT NULL, comment_hash INT NOT NULL, comment_text BLOB NOT NULL, comment_data BLOB DEFAULT NULL,
  INDEX comment_hash (comment_hash), PRIMARY KEY(comment_id)) DEFAULT CHARSET=binary;
CREATE TABLE archive (ar_id INT UNSIGNED AUTO_INCREMENT NOT NULL, ar_namespace INT DEFAULT 0 NOT NULL, ar_title VARBINARY(255) DEFAULT '' NOT NULL,
  ar_comment_id BIGINT UNSIGNED NOT NULL, ar_actor BIGINT UNSIGNED NOT NULL, ar_timestamp BINARY(14) NOT NULL, ar_minor_edit TINYINT DEFAULT 0 NOT NULL,
  ar_rev_id INT UNSIGNED NOT NULL, ar_deleted TINYINT UNSIGNED DEFAULT 0 NOT NULL, ar_len INT UNSIGNED DEFAULT NULL, ar_page_id INT UNSIGNED DEFAULT NULL,
  ar_parent_id INT UNSIGNED DEFAULT NULL, ar_sha1 VARBINARY(32) DEFAULT '' NOT NULL, INDEX ar_name_title_timestamp (ar_namespace, ar_title, ar_timestamp),
  INDEX ar_actor_timestamp (ar_actor, ar_timestamp), UNIQUE INDEX ar_revid_uniq (ar_rev_id), PRIMARY KEY(ar_id)) DEFAULT CHARSET=binary;
CREATE TABLE linktarget (lt_id BIGINT UNSIGNED AUTO_INCREMENT NOT NULL, lt_namespace INT NOT NULL, lt_title VARBINARY(255) NOT NULL,
  UNIQUE INDEX lt_namespace_title (lt_namespace, lt_title), PRIMARY KEY(lt_id)) DEFAULT CHARSET=binary;
CREATE TABLE pagelinks (pl_from INT UNSIGNED DEFAULT 0 NOT NULL, pl_target_id BIGINT UNSIGNED NOT NULL, pl_from_namespace INT DEFAULT 0 NOT NULL,
  INDEX pl_target_id (pl_target_id, pl_from), INDEX pl_backlinks_namespace_target_id (pl_from_namespace, pl_target_id, pl_from), PRIMARY KEY(pl_from, pl_target_id)) DEFAULT CHARSET=binary;
CREATE TABLE templatelinks (tl_from INT UNSIGNED DEFAULT 0 NOT NULL, tl_target_id BIGINT UNSIGNED NOT NULL, tl_from_namespace INT DEFAULT 0 NOT NULL,
  INDEX tl_target_id (tl_target_id, tl_from), INDEX tl_backlinks_namespace_target_id (tl_from_namespace, tl_target_id, tl_from), PRIMARY KEY(tl_from, tl_target_id)) DEFAULT CHARSET=binary;
CREATE TABLE imagelinks (il_from INT UNSIGNED DEFAULT 0 NOT NULL, il_to VARBINARY(255) DEFAULT '' NOT NULL, il_from_namespace INT DEFAULT 0 NOT NULL,
  INDEX il_to (il_to, il_from), INDEX il_backlinks_namespace (il_from_namespace, il_to, il_from), PRIMARY KEY(il_from, il_to)) DEFAULT CHARSET=binary;
CREATE TABLE categorylinks (cl_from INT UNSIGNED DEFAULT 0 NOT NULL, cl_to VARBINARY(255) DEFAULT '' NOT NULL, cl_sortkey VARBINARY(230) DEFAULT '' NOT NULL,
  cl_sortkey_prefix VARBINARY(255) DEFAULT '' NOT NULL, cl_timestamp TIMESTAMP NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),
  cl_collation VARBINARY(32) DEFAULT '' NOT NULL, cl_type ENUM('page', 'subcat', 'file') DEFAULT 'page' NOT NULL,
  INDEX cl_sortkey (cl_to, cl_type, cl_sortkey, cl_from), INDEX cl_timestamp (cl_to, cl_timestamp), PRIMARY KEY(cl_from, cl_to)) DEFAULT CHARSET=binary;
CREATE TABLE category (cat_id INT UNSIGNED AUTO_INCREMENT NOT NULL, cat_title VARBINARY(255) NOT NULL, cat_pages INT DEFAULT 0 NOT NULL, cat_subcats INT DEFAULT 0 NOT NULL,
  cat_files INT DEFAULT 0 NOT NULL, UNIQUE INDEX cat_title (cat_title), INDEX cat_pages (cat_pages), PRIMARY KEY(cat_id)) DEFAULT CHARSET=binary;
CREATE TABLE externallinks (el_id INT UNSIGNED AUTO_INCREMENT NOT NULL, el_from INT UNSIGNED DEFAULT 0 NOT NULL, el_to_domain_index VARBINARY(255) DEFAULT '' NOT NULL,
  el_to_path BLOB DEFAULT NULL, INDEX el_from (el_from), INDEX el_to_domain_index_to_path (el_to_domain_index, el_to_path(60)), PRIMARY KEY(el_id)) DEFAULT CHARSET=binary;
CREATE TABLE langlinks (ll_from INT UNSIGNED DEFAULT 0 NOT NULL, ll_lang VARBINARY(35) DEFAULT '' NOT NULL, ll_title VARBINARY(255) DEFAULT '' NOT NULL,
  INDEX ll_lang (ll_lang, ll_title), PRIMARY KEY(ll_from, ll_lang)) DEFAULT CHARSET=binary;
CREATE TABLE iwlinks (iwl_from INT UNSIGNED DEFAULT 0 NOT NULL, iwl_prefix VARBINARY(32) DEFAULT '' NOT NULL, iwl_title VARBINARY(255) DEFAULT '' NOT NULL,
  INDEX iwl_prefix_title_from (iwl_prefix, iwl_title, iwl_from), INDEX iwl_prefix_from_title (iwl_prefix, iwl_from, iwl_title), PRIMARY KEY(iwl_from, iwl_prefix, iwl_title)) DEFAULT CHARSET=binary;
CREATE TABLE interwiki (iw_prefix VARCHAR(32) NOT NULL, iw_url BLOB NOT NULL, iw_api BLOB NOT NULL, iw_wikiid VARCHAR(64) NOT NULL, iw_local TINYINT(1) NOT NULL,
  iw_trans TINYINT DEFAULT 0 NOT NULL, PRIMARY KEY(iw_prefix)) DEFAULT CHARSET=binary;
CREATE TABLE image (img_name VARBINARY(255) DEFAULT '' NOT NULL, img_size BIGINT UNSIGNED DEFAULT 0 NOT NULL, img_width INT DEFAULT 0 NOT NULL, img_height INT DEFAULT 0 NOT NULL,
  img_metadata MEDIUMBLOB NOT NULL, img_bits INT DEFAULT 0 NOT NULL,
  img_media_type ENUM('UNKNOWN', 'BITMAP', 'DRAWING', 'AUDIO', 'VIDEO', 'MULTIMEDIA', 'OFFICE', 'TEXT', 'EXECUTABLE', 'ARCHIVE', '3D') DEFAULT NULL,
  img_major_mime ENUM('unknown', 'application', 'audio', 'image', 'text', 'video', 'message', 'model', 'multipart', 'chemical') DEFAULT 'unknown' NOT NULL,
  img_minor_mime VARBINARY(100) DEFAULT 'unknown' NOT NULL, img_description_id BIGINT UNSIGNED NOT NULL, img_actor BIGINT UNSIGNED NOT NULL, img_timestamp BINARY(14) NOT NULL,
  img_sha1 VARBINARY(32) DEFAULT '' NOT NULL, INDEX img_actor_timestamp (img_actor, img_timestamp), INDEX img_size (img_size), INDEX img_timestamp (img_timestamp),
  INDEX img_sha1 (img_sha1(10)), INDEX img_media_mime (img_media_type, img_major_mime, img_minor_mime), PRIMARY KEY(img_name)) DEFAULT CHARSET=binary;
CREATE TABLE recentchanges (rc_id INT UNSIGNED AUTO_INCREMENT NOT NULL, rc_timestamp BINARY(14) NOT NULL, rc_actor BIGINT UNSIGNED NOT NULL, rc_namespace INT DEFAULT 0 NOT NULL,
  rc_title VARBINARY(255) DEFAULT '' NOT NULL, rc_comment_id BIGINT UNSIGNED NOT NULL, rc_minor TINYINT UNSIGNED DEFAULT 0 NOT NULL, rc_bot TINYINT UNSIGNED DEFAULT 0 NOT NULL,
  rc_new TINYINT UNSIGNED DEFAULT 0 NOT NULL, rc_cur_id INT UNSIGNED DEFAULT 0 NOT NULL, rc_this_oldid INT UNSIGNED DEFAULT 0 NOT NULL, rc_last_oldid INT UNSIGNED DEFAULT 0 NOT NULL,
  rc_type TINYINT UNSIGNED DEFAULT 0 NOT NULL, rc_source VARBINARY(16) DEFAULT '' NOT NULL, rc_patrolled TINYINT UNSIGNED DEFAULT 0 NOT NULL, rc_ip VARBINARY(40) DEFAULT '' NOT NULL,
  rc_old_len INT DEFAULT NULL, rc_new_len INT DEFAULT NULL, rc_deleted TINYINT UNSIGNED DEFAULT 0 NOT NULL, rc_logid INT UNSIGNED DEFAULT 0 NOT NULL,
  rc_log_type VARBINARY(255) DEFAULT NULL, rc_log_action VARBINARY(255) DEFAULT NULL, rc_params BLOB DEFAULT NULL,
  INDEX rc_timestamp (rc_timestamp), INDEX rc_namespace_title_timestamp (rc_namespace, rc_title, rc_timestamp), INDEX rc_cur_id (rc_cur_id),
  INDEX rc_new_name_timestamp (rc_new, rc_namespace, rc_timestamp), INDEX rc_ip (rc_ip), INDEX rc_ns_actor (rc_namespace, rc_actor), INDEX rc_actor (rc_actor, rc_timestamp),
  INDEX rc_name_type_patrolled_timestamp (rc_namespace, rc_type, rc_patrolled, rc_timestamp), INDEX rc_this_oldid (rc_this_oldid), PRIMARY KEY(rc_id)) DEFAULT CHARSET=binary;
CREATE TABLE watchlist (wl_id INT UNSIGNED AUTO_INCREMENT NOT NULL, wl_user INT UNSIGNED NOT NULL, wl_namespace INT DEFAULT 0 NOT NULL, wl_title VARBINARY(255) DEFAULT '' NOT NULL,
  wl_notificationtimestamp BINARY(14) DEFAULT NULL, UNIQUE INDEX wl_user (wl_user, wl_namespace, wl_title), INDEX wl_namespace_title (wl_namespace, wl_title),
  INDEX wl_user_notificationtimestamp (wl_user, wl_notificationtimestamp), PRIMARY KEY(wl_id)) DEFAULT CHARSET=binary;
CREATE TABLE logging (log_id INT UNSIGNED AUTO_INCREMENT NOT NULL, log_type VARBINARY(32) DEFAULT '' NOT NULL, log_action VARBINARY(32) DEFAULT '' NOT NULL,
  log_timestamp BINARY(14) DEFAULT '19700101000000' NOT NULL, log_actor BIGINT UNSIGNED NOT NULL, log_namespace INT DEFAULT 0 NOT NULL, log_title VARBINARY(255) DEFAULT '' NOT NULL,
  log_page INT UNSIGNED DEFAULT NULL, log_comment_id BIGINT UNSIGNED NOT NULL, log_params BLOB NOT NULL, log_deleted TINYINT UNSIGNED DEFAULT 0 NOT NULL,
  INDEX log_type_time (log_type, log_timestamp), INDEX log_actor_time (log_actor, log_timestamp), INDEX log_page_time (log_namespace, log_title, log_timestamp),
  INDEX log_times (log_timestamp), INDEX log_actor_type_time (log_actor, log_type, log_timestamp), INDEX log_page_id_time (log_page, log_timestamp),
  INDEX log_type_action (log_type, log_action, log_timestamp), PRIMARY KEY(log_id)) DEFAULT CHARSET=binary;
CREATE TABLE log_search (ls_field VARBINARY(32) NOT NULL, ls_value VARCHAR(255) NOT NULL, ls_log_id INT UNSIGNED DEFAULT 0 NOT NULL, INDEX ls_log_id (ls_log_id),
  PRIMARY KEY(ls_field, ls_value, ls_log_id)) DEFAULT CHARSET=binary;
CREATE TABLE change_tag_def (ctd_id INT UNSIGNED AUTO_INCREMENT NOT NULL, ctd_name VARBINARY(255) NOT NULL, ctd_user_defined TINYINT(1) NOT NULL, ctd_count BIGINT UNSIGNED DEFAULT 0 NOT NULL,
  UNIQUE INDEX ctd_name (ctd_name), INDEX ctd_count (ctd_count), INDEX ctd_user_defined (ctd_user_defined), PRIMARY KEY(ctd_id)) DEFAULT CHARSET=binary;
CREATE TABLE change_tag (ct_id INT UNSIGNED AUTO_INCREMENT NOT NULL, ct_rc_id INT UNSIGNED DEFAULT NULL, ct_log_id INT UNSIGNED DEFAULT NULL, ct_rev_id BIGINT UNSIGNED DEFAULT NULL,
  ct_params BLOB DEFAULT NULL, ct_tag_id INT UNSIGNED NOT NULL, UNIQUE INDEX ct_rc_tag_id (ct_rc_id, ct_tag_id), UNIQUE INDEX ct_log_tag_id (ct_log_id, ct_tag_id),
  UNIQUE INDEX ct_rev_tag_id (ct_rev_id, ct_tag_id), INDEX ct_tag_id_id (ct_tag_id, ct_rc_id, ct_rev_id, ct_log_id), PRIMARY KEY(ct_id)) DEFAULT CHARSET=binary;
CREATE TABLE job (job_id INT UNSIGNED AUTO_INCREMENT NOT NULL, job_cmd VARBINARY(60) DEFAULT '' NOT NULL, job_namespace INT NOT NULL, job_title VARBINARY(255) NOT NULL,
  job_timestamp BINARY(14) DEFAULT NULL, job_params MEDIUMBLOB NOT NULL, job_random INT UNSIGNED DEFAULT 0 NOT NULL, job_attempts INT UNSIGNED DEFAULT 0 NOT NULL,
  job_token VARBINARY(32) DEFAULT '' NOT NULL, job_token_timestamp BINARY(14) DEFAULT NULL, job_sha1 VARBINARY(32) DEFAULT '' NOT NULL,
  INDEX job_sha1 (job_sha1), INDEX job_cmd_token (job_cmd, job_token, job_random), INDEX job_cmd_token_id (job_cmd, job_token, job_id),
  INDEX job_cmd (job_cmd, job_namespace, job_title, job_params(128)), INDEX job_timestamp (job_timestamp), PRIMARY KEY(job_id)) DEFAULT CHARSET=binary;
CREATE TABLE objectcache (keyname VARBINARY(255) DEFAULT '' NOT NULL, value MEDIUMBLOB DEFAULT NULL, exptime BINARY(14) NOT NULL, modtoken VARCHAR(17) DEFAULT '00000000000000000' NOT NULL,
  flags INT UNSIGNED DEFAULT NULL, INDEX exptime (exptime), PRIMARY KEY(keyname)) DEFAULT CHARSET=binary;
CREATE TABLE querycache (qc_type VARBINARY(32) NOT NULL, qc_value INT UNSIGNED DEFAULT 0 NOT NULL, qc_namespace INT DEFAULT 0 NOT NULL, qc_title VARBINARY(255) DEFAULT '' NOT NULL,
  INDEX qc_type (qc_type, qc_value)) DEFAULT CHARSET=binary;
CREATE TABLE l10n_cache (lc_lang VARBINARY(35) NOT NULL, lc_key VARCHAR(255) NOT NULL, lc_value MEDIUMBLOB NOT NULL, PRIMARY KEY(lc_lang, lc_key)) DEFAULT CHARSET=binary;
CREATE TABLE site_stats (ss_row_id INT UNSIGNED NOT NULL, ss_total_edits BIGINT UNSIGNED DEFAULT NULL, ss_good_articles BIGINT UNSIGNED DEFAULT NULL, ss_total_pages BIGINT UNSIGNED DEFAULT NULL,
  ss_users BIGINT UNSIGNED DEFAULT NULL, ss_active_users BIGINT UNSIGNED DEFAULT NULL, ss_images BIGINT UNSIGNED DEFAULT NULL, PRIMARY KEY(ss_row_id)) DEFAULT CHARSET=binary;

-- Rows.
INSERT INTO slot_roles (role_name) VALUES ('main'), ('mediainfo');
INSERT INTO content_models (model_name) VALUES ('wikitext'), ('json'), ('css');
INSERT INTO site_stats VALUES (1, 600, 250, 300, 100, 20, 60);
INSERT INTO user (user_name, user_password, user_newpassword, user_email, user_touched, user_token, user_registration, user_editcount)
 SELECT CONCAT(ELT(1 + seq % 4, 'Ada', 'Žofie', 'zed', 'Имя'), seq), CONCAT(':pbkdf2:', MD5(seq)), '', CONCAT('u', seq, '@example.org'), '20240101000000', MD5(seq),
  IF(seq % 9, CONCAT('2023', LPAD(1 + seq % 12, 2, '0'), '01000000'), NULL), seq * 7 % 300 FROM seq_1_to_150;
INSERT INTO actor (actor_user, actor_name) SELECT user_id, user_name FROM user ORDER BY user_id;
INSERT INTO actor (actor_user, actor_name) SELECT NULL, CONCAT('198.51.100.', seq) FROM seq_1_to_50;
INSERT INTO user_groups SELECT seq, ELT(1 + seq % 3, 'sysop', 'bureaucrat', 'bot'), IF(seq % 4 = 0, '20250101000000', NULL) FROM seq_1_to_60;
INSERT INTO user_properties SELECT 1 + seq % 150, CONCAT('prop', seq DIV 150), IF(seq % 5, seq, NULL) FROM seq_0_to_449;
INSERT INTO user_newtalk SELECT seq, '', '20240505050505' FROM seq_1_to_20;
INSERT INTO page (page_namespace, page_title, page_is_redirect, page_is_new, page_random, page_touched, page_latest, page_len, page_content_model)
 SELECT ELT(1 + seq % 6, 0, 0, 1, 4, 10, 14), CONCAT(ELT(1 + seq % 5, 'Main', 'Żółw', 'zebra', 'Πόλη', 'Page'), '_', seq), seq % 17 = 0, seq % 3 = 0, (seq * 7919 % 10007) / 10007,
  '20240601000000', seq * 2, seq * 97 % 5000, 'wikitext' FROM seq_1_to_300;
INSERT INTO comment (comment_hash, comment_text) SELECT CAST(CRC32(seq) AS SIGNED) - 2147483648, CONCAT('/* ', seq, ' */ změna') FROM seq_1_to_200;
INSERT INTO text (old_text, old_flags) SELECT REPEAT(CONCAT('==', seq, '== [[ľink]] '), seq * 13 % 700), IF(seq % 3, 'utf-8', 'utf-8,gzip') FROM seq_1_to_600;
INSERT INTO content (content_size, content_sha1, content_model, content_address) SELECT LENGTH(old_text), MD5(old_id), 1 + old_id % 3, CONCAT('tt:', old_id) FROM text ORDER BY old_id;
INSERT INTO revision (rev_page, rev_comment_id, rev_actor, rev_timestamp, rev_minor_edit, rev_len, rev_parent_id, rev_sha1)
 SELECT (seq + 1) DIV 2, 1 + seq % 200, 1 + seq * 31 % 200, DATE_FORMAT('2024-01-01' + INTERVAL seq * 977 SECOND, '%Y%m%d%H%i%s'), seq % 4 = 0, seq * 97 % 5000,
  IF(seq % 2, 0, seq - 1), MD5(seq) FROM seq_1_to_600;
INSERT INTO slots SELECT rev_id, 1, rev_id, rev_id FROM revision;
INSERT INTO slots SELECT rev_id, 2, rev_id, rev_id FROM revision WHERE rev_id % 10 = 0;
INSERT INTO linktarget (lt_namespace, lt_title) SELECT page_namespace, page_title FROM page WHERE page_id % 2 ORDER BY page_id;
INSERT INTO pagelinks SELECT DISTINCT 1 + seq * 7 % 300, 1 + seq * seq % 150, ELT(1 + (1 + seq * 7 % 300) % 6, 0, 0, 1, 4, 10, 14) FROM seq_1_to_1200;
INSERT INTO templatelinks SELECT DISTINCT 1 + seq * 11 % 300, 1 + seq * 3 % 40, 0 FROM seq_1_to_500;
INSERT INTO imagelinks SELECT DISTINCT 1 + seq * 11 % 300, CONCAT('File_', seq % 60, '.png'), 0 FROM seq_1_to_300;
INSERT INTO category (cat_title, cat_pages) SELECT CONCAT('Cat_', seq), seq % 30 FROM seq_1_to_60;
INSERT INTO categorylinks SELECT DISTINCT 1 + seq * 13 % 300, CONCAT('Cat_', seq % 60), CONCAT(CHAR(65 + seq % 26), '\n', seq), CHAR(65 + seq % 26), '2024-02-02 02:02:02', 'uppercase',
  ELT(1 + seq % 7 DIV 5, 'page', 'subcat') FROM seq_1_to_280;
INSERT INTO externallinks (el_from, el_to_domain_index, el_to_path) SELECT 1 + seq % 300, CONCAT('https://org.example', seq % 25, '.'), CONCAT('/', REPEAT('p', seq % 80), seq) FROM seq_1_to_400;
INSERT INTO langlinks SELECT seq, ELT(1 + seq % 3, 'de', 'fr', 'ja'), CONCAT('Titel ', seq) FROM seq_1_to_200;
INSERT INTO iwlinks SELECT seq, 'wikt', CONCAT('word', seq) FROM seq_1_to_100;
INSERT INTO interwiki SELECT CONCAT('w', seq), CONCAT('https://w', seq, '.example/$1'), '', '', seq % 2, 0 FROM seq_1_to_40;
INSERT INTO image SELECT CONCAT('File_', seq, '.png'), seq * 1000, seq, seq * 2, REPEAT(CHAR(seq), seq * 9), 8, 1 + seq % 11, 1 + seq % 10, 'png', 1, 1 + seq % 150,
  CONCAT('202401', LPAD(1 + seq % 28, 2, '0'), '000000'), MD5(seq) FROM seq_0_to_119;
INSERT INTO recentchanges (rc_timestamp, rc_actor, rc_namespace, rc_title, rc_comment_id, rc_minor, rc_bot, rc_new, rc_cur_id, rc_this_oldid, rc_last_oldid, rc_type, rc_source, rc_patrolled,
  rc_old_len, rc_new_len) SELECT rev_timestamp, rev_actor, page_namespace, page_title, rev_comment_id, rev_minor_edit, rev_id % 11 = 0, rev_parent_id = 0, page_id, rev_id, rev_parent_id,
  rev_parent_id = 0, 'mw.edit', rev_id % 3, rev_len - 5, rev_len FROM revision JOIN page ON page_id = rev_page WHERE rev_id > 200 ORDER BY rev_id;
INSERT INTO watchlist (wl_user, wl_namespace, wl_title, wl_notificationtimestamp) SELECT 1 + page_id % 20, page_namespace, page_title, IF(page_id % 3, NULL, '20240701000000') FROM page ORDER BY page_id;
INSERT INTO logging (log_type, log_action, log_timestamp, log_actor, log_namespace, log_title, log_page, log_comment_id, log_params)
 SELECT ELT(1 + seq % 4, 'delete', 'block', 'move', 'upload'), ELT(1 + seq % 2, 'delete', 'restore'), DATE_FORMAT('2024-03-01' + INTERVAL seq * 991 SECOND, '%Y%m%d%H%i%s'), 1 + seq % 40, 0,
  CONCAT('Page_', seq), IF(seq % 5, seq, NULL), 1, 'a:0:{}' FROM seq_1_to_250;
INSERT INTO log_search SELECT 'target_author_actor', 1 + seq % 40, seq FROM seq_1_to_100;
INSERT INTO change_tag_def (ctd_name, ctd_user_defined, ctd_count) VALUES ('mw-undo', 0, 0), ('mobile edit', 0, 0), ('spam', 1, 0);
INSERT INTO change_tag (ct_rc_id, ct_log_id, ct_rev_id, ct_tag_id) SELECT IF(seq % 2, seq, NULL), NULL, IF(seq % 3, seq, NULL), 1 + seq % 3 FROM seq_1_to_200;
INSERT INTO job (job_cmd, job_namespace, job_title, job_timestamp, job_params, job_random, job_sha1)
 SELECT ELT(1 + seq % 3, 'refreshLinks', 'htmlCacheUpdate', 'enotifNotify'), 0, CONCAT('Page_', seq), '20240801000000', REPEAT(MD5(seq), 9), seq * 7919 % 100003, MD5(seq % 90) FROM seq_1_to_120;
INSERT INTO objectcache SELECT CONCAT('wiki:key:', seq), REPEAT(UNHEX(MD5(seq)), seq * 3), CONCAT('202409', LPAD(1 + seq % 30, 2, '0'), '000000'), '00000000000000000', 0 FROM seq_1_to_200;
INSERT INTO l10n_cache SELECT ELT(1 + seq % 4, 'en', 'cs', 'de', 'fr'), CONCAT('messages:', seq), CONCAT('s:3:"', seq, '";') FROM seq_1_to_400;
INSERT INTO page_props SELECT page_id, ELT(1 + page_id % 2, 'displaytitle', 'defaultsort'), page_title, IF(page_id % 3, page_len / 7, NULL) FROM page WHERE page_id % 5 = 0;
INSERT INTO page_restrictions (pr_page, pr_type, pr_level, pr_cascade, pr_expiry) SELECT seq * 3, ELT(1 + seq % 2, 'edit', 'move'), 'sysop', 0, 'infinity' FROM seq_1_to_40;
INSERT INTO redirect SELECT page_id, 0, 'Main_1', '', NULL FROM page WHERE page_is_redirect;
INSERT INTO site (site_global_key, site_type, site_group, site_source, site_language, site_protocol, site_domain, site_data, site_forward, site_config)
 SELECT CONCAT('wiki', seq), 'mediawiki', 'wikipedia', 'local', 'en', 'https', 'org.example.', 'a:0:{}', 0, '' FROM seq_1_to_30;
INSERT INTO querycache SELECT 'Lonelypages', seq % 50, 0, CONCAT('Page_', seq) FROM seq_1_to_150;
INSERT INTO updatelog VALUES ('patch-1', NULL), ('patch-2', 'done');
