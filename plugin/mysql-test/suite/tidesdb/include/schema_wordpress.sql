-- WordPress 6, after its wp_get_db_schema(): single site, prefix wp_, utf8mb4 with keys over 191 characters.
SET NAMES utf8mb4;
CREATE TABLE wp_termmeta (
 meta_id bigint(20) unsigned NOT NULL auto_increment,
 term_id bigint(20) unsigned NOT NULL default '0',
 meta_key varchar(255) default NULL,
 meta_value longtext,
 PRIMARY KEY  (meta_id),
 KEY term_id (term_id),
 KEY meta_key (meta_key(191))
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_terms (
 term_id bigint(20) unsigned NOT NULL auto_increment,
 name varchar(200) NOT NULL default '',
 slug varchar(200) NOT NULL default '',
 term_group bigint(10) NOT NULL default 0,
 PRIMARY KEY  (term_id),
 KEY slug (slug(191)),
 KEY name (name(191))
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_term_taxonomy (
 term_taxonomy_id bigint(20) unsigned NOT NULL auto_increment,
 term_id bigint(20) unsigned NOT NULL default 0,
 taxonomy varchar(32) NOT NULL default '',
 description longtext NOT NULL,
 parent bigint(20) unsigned NOT NULL default 0,
 count bigint(20) NOT NULL default 0,
 PRIMARY KEY  (term_taxonomy_id),
 UNIQUE KEY term_id_taxonomy (term_id,taxonomy),
 KEY taxonomy (taxonomy)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_term_relationships (
 object_id bigint(20) unsigned NOT NULL default 0,
 term_taxonomy_id bigint(20) unsigned NOT NULL default 0,
 term_order int(11) NOT NULL default 0,
 PRIMARY KEY  (object_id,term_taxonomy_id),
 KEY term_taxonomy_id (term_taxonomy_id)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_commentmeta (
 meta_id bigint(20) unsigned NOT NULL auto_increment,
 comment_id bigint(20) unsigned NOT NULL default '0',
 meta_key varchar(255) default NULL,
 meta_value longtext,
 PRIMARY KEY  (meta_id),
 KEY comment_id (comment_id),
 KEY meta_key (meta_key(191))
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_comments (
 comment_ID bigint(20) unsigned NOT NULL auto_increment,
 comment_post_ID bigint(20) unsigned NOT NULL default '0',
 comment_author tinytext NOT NULL,
 comment_author_email varchar(100) NOT NULL default '',
 comment_author_url varchar(200) NOT NULL default '',
 comment_author_IP varchar(100) NOT NULL default '',
 comment_date datetime NOT NULL default '0000-00-00 00:00:00',
 comment_date_gmt datetime NOT NULL default '0000-00-00 00:00:00',
 comment_content text NOT NULL,
 comment_karma int(11) NOT NULL default '0',
 comment_approved varchar(20) NOT NULL default '1',
 comment_agent varchar(255) NOT NULL default '',
 comment_type varchar(20) NOT NULL default 'comment',
 comment_parent bigint(20) unsigned NOT NULL default '0',
 user_id bigint(20) unsigned NOT NULL default '0',
 PRIMARY KEY  (comment_ID),
 KEY comment_post_ID (comment_post_ID),
 KEY comment_approved_date_gmt (comment_approved,comment_date_gmt),
 KEY comment_date_gmt (comment_date_gmt),
 KEY comment_parent (comment_parent),
 KEY comment_author_email (comment_author_email(10))
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_links (
 link_id bigint(20) unsigned NOT NULL auto_increment,
 link_url varchar(255) NOT NULL default '',
 link_name varchar(255) NOT NULL default '',
 link_image varchar(255) NOT NULL default '',
 link_target varchar(25) NOT NULL default '',
 link_description varchar(255) NOT NULL default '',
 link_visible varchar(20) NOT NULL default 'Y',
 link_owner bigint(20) unsigned NOT NULL default '1',
 link_rating int(11) NOT NULL default '0',
 link_updated datetime NOT NULL default '0000-00-00 00:00:00',
 link_rel varchar(255) NOT NULL default '',
 link_notes mediumtext NOT NULL,
 link_rss varchar(255) NOT NULL default '',
 PRIMARY KEY  (link_id),
 KEY link_visible (link_visible)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_options (
 option_id bigint(20) unsigned NOT NULL auto_increment,
 option_name varchar(191) NOT NULL default '',
 option_value longtext NOT NULL,
 autoload varchar(20) NOT NULL default 'yes',
 PRIMARY KEY  (option_id),
 UNIQUE KEY option_name (option_name),
 KEY autoload (autoload)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_postmeta (
 meta_id bigint(20) unsigned NOT NULL auto_increment,
 post_id bigint(20) unsigned NOT NULL default '0',
 meta_key varchar(255) default NULL,
 meta_value longtext,
 PRIMARY KEY  (meta_id),
 KEY post_id (post_id),
 KEY meta_key (meta_key(191))
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_posts (
 ID bigint(20) unsigned NOT NULL auto_increment,
 post_author bigint(20) unsigned NOT NULL default '0',
 post_date datetime NOT NULL default '0000-00-00 00:00:00',
 post_date_gmt datetime NOT NULL default '0000-00-00 00:00:00',
 post_content longtext NOT NULL,
 post_title text NOT NULL,
 post_excerpt text NOT NULL,
 post_status varchar(20) NOT NULL default 'publish',
 comment_status varchar(20) NOT NULL default 'open',
 ping_status varchar(20) NOT NULL default 'open',
 post_password varchar(255) NOT NULL default '',
 post_name varchar(200) NOT NULL default '',
 to_ping text NOT NULL,
 pinged text NOT NULL,
 post_modified datetime NOT NULL default '0000-00-00 00:00:00',
 post_modified_gmt datetime NOT NULL default '0000-00-00 00:00:00',
 post_content_filtered longtext NOT NULL,
 post_parent bigint(20) unsigned NOT NULL default '0',
 guid varchar(255) NOT NULL default '',
 menu_order int(11) NOT NULL default '0',
 post_type varchar(20) NOT NULL default 'post',
 post_mime_type varchar(100) NOT NULL default '',
 comment_count bigint(20) NOT NULL default '0',
 PRIMARY KEY  (ID),
 KEY post_name (post_name(191)),
 KEY type_status_date (post_type,post_status,post_date,ID),
 KEY post_parent (post_parent),
 KEY post_author (post_author),
 KEY type_status_author (post_type,post_status,post_author)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_users (
 ID bigint(20) unsigned NOT NULL auto_increment,
 user_login varchar(60) NOT NULL default '',
 user_pass varchar(255) NOT NULL default '',
 user_nicename varchar(50) NOT NULL default '',
 user_email varchar(100) NOT NULL default '',
 user_url varchar(100) NOT NULL default '',
 user_registered datetime NOT NULL default '0000-00-00 00:00:00',
 user_activation_key varchar(255) NOT NULL default '',
 user_status int(11) NOT NULL default '0',
 display_name varchar(250) NOT NULL default '',
 PRIMARY KEY  (ID),
 KEY user_login_key (user_login),
 KEY user_nicename (user_nicename),
 KEY user_email (user_email)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_usermeta (
 umeta_id bigint(20) unsigned NOT NULL auto_increment,
 user_id bigint(20) unsigned NOT NULL default '0',
 meta_key varchar(255) default NULL,
 meta_value longtext,
 PRIMARY KEY  (umeta_id),
 KEY user_id (user_id),
 KEY meta_key (meta_key(191))
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;

-- Rows.
INSERT INTO wp_users (user_login, user_pass, user_nicename, user_email, user_registered, display_name)
 SELECT CONCAT('user', seq), CONCAT('$P$B', MD5(seq)), CONCAT('user-', seq),
  CONCAT(ELT(1 + seq % 3, 'Ann', 'bob', 'Zoë'), seq, '@example.org'), '2024-01-01' + INTERVAL seq HOUR,
  CONCAT(ELT(1 + seq % 5, 'Łukasz', 'Åsa', 'Ωmega', '山田', '😀 smile'), ' ', seq) FROM seq_1_to_120;
INSERT INTO wp_usermeta (user_id, meta_key, meta_value)
 SELECT 1 + seq % 120, ELT(1 + seq DIV 120, 'nickname', 'wp_capabilities', 'wp_user_level', 'session_tokens', 'rich_editing'),
  ELT(1 + seq DIV 120, CONCAT('nick', seq), IF(seq % 7, 'a:1:{s:10:"subscriber";b:1;}', 'a:1:{s:13:"administrator";b:1;}'),
   seq % 11, REPEAT(MD5(seq), 40), 'true') FROM seq_0_to_599;
INSERT INTO wp_options (option_name, option_value, autoload)
 SELECT CONCAT(IF(seq % 4, 'option_', '_transient_'), seq), REPEAT(CONCAT(seq, ';'), seq % 90),
  ELT(1 + seq % 3, 'yes', 'no', 'auto') FROM seq_1_to_300;
INSERT INTO wp_options (option_name, option_value) VALUES ('siteurl', 'https://example.org'), ('blogname', 'Žluťoučký 😀'),
 ('active_plugins', 'a:0:{}'), ('_transient_timeout_feed', '1700000000'), ('cron', REPEAT('c', 70000));
INSERT INTO wp_terms (name, slug) SELECT CONCAT(ELT(1 + seq % 4, 'News', 'Über', 'tag', 'Категория'), ' ', seq), CONCAT('term-', seq)
 FROM seq_1_to_100;
INSERT INTO wp_term_taxonomy (term_id, taxonomy, description, parent)
 SELECT term_id, ELT(1 + term_id % 3, 'category', 'post_tag', 'nav_menu'), REPEAT('d', term_id), IF(term_id > 50, term_id - 50, 0)
 FROM wp_terms ORDER BY term_id;
INSERT INTO wp_termmeta (term_id, meta_key, meta_value) SELECT 1 + seq % 100, CONCAT('order', seq % 3), seq FROM seq_1_to_150;
INSERT INTO wp_posts (post_author, post_date, post_date_gmt, post_content, post_title, post_excerpt, post_status, post_name,
  to_ping, pinged, post_modified, post_modified_gmt, post_content_filtered, post_parent, guid, menu_order, post_type,
  post_mime_type)
 SELECT 1 + seq % 120, '2024-01-01' + INTERVAL (seq * 7919 % 400) * 3607 SECOND, '2024-01-01' + INTERVAL (seq * 7919 % 400) * 3607 SECOND,
  CONCAT('<!-- wp:paragraph -->', REPEAT(CONCAT('wörd', seq, ' '), seq * 37 % 1500)),
  CONCAT(ELT(1 + seq % 4, 'Hello', 'hallo', 'ÉTÉ', '日本'), ' ', seq), '', ELT(1 + seq % 9 DIV 6, 'publish', 'draft'),
  CONCAT('post-', seq), '', '', '2024-03-01' + INTERVAL seq MINUTE, '2024-03-01' + INTERVAL seq MINUTE, '',
  IF(seq % 5 = 0, seq DIV 5, 0), CONCAT('https://example.org/?p=', seq), seq % 3,
  ELT(1 + seq % 10 DIV 4, 'post', 'page', 'attachment'), IF(seq % 10 DIV 4 = 2, 'image/jpeg', '') FROM seq_1_to_400;
INSERT INTO wp_postmeta (post_id, meta_key, meta_value)
 SELECT 1 + seq % 400, ELT(1 + seq % 4, '_edit_lock', '_thumbnail_id', 'price', CONCAT(REPEAT('k', 200), seq % 3)),
  IF(seq % 4 = 2, seq * 31 % 997, CONCAT('value ', seq)) FROM seq_1_to_900;
INSERT INTO wp_term_relationships (object_id, term_taxonomy_id, term_order)
 SELECT 1 + seq % 400, 1 + (seq * 13 + seq DIV 400) % 100, seq % 4 FROM seq_1_to_800;
UPDATE wp_term_taxonomy SET count = (SELECT COUNT(*) FROM wp_term_relationships r WHERE r.term_taxonomy_id = wp_term_taxonomy.term_taxonomy_id);
INSERT INTO wp_comments (comment_post_ID, comment_author, comment_author_email, comment_author_IP, comment_date, comment_date_gmt,
  comment_content, comment_approved, comment_agent, comment_parent, user_id)
 SELECT 1 + seq * 17 % 400, CONCAT('Author ', seq % 60), CONCAT('author', seq % 60, '@example.net'), CONCAT('192.0.2.', seq % 250),
  '2024-05-01' + INTERVAL seq * 61 SECOND, '2024-05-01' + INTERVAL seq * 61 SECOND, REPEAT(CONCAT('comment ', seq, ' '), 1 + seq % 30),
  ELT(1 + seq % 8 DIV 6, '1', '0', 'spam'), 'Mozilla/5.0', IF(seq % 6 = 0, seq DIV 6, 0), seq % 40 FROM seq_1_to_500;
INSERT INTO wp_commentmeta (comment_id, meta_key, meta_value) SELECT seq, '_wp_trash_meta_time', seq * 1000 FROM seq_1_to_200;
UPDATE wp_posts SET comment_count = (SELECT COUNT(*) FROM wp_comments WHERE comment_post_ID = wp_posts.ID AND comment_approved = '1');
INSERT INTO wp_links (link_url, link_name, link_notes, link_rating) SELECT CONCAT('https://example.com/', seq), CONCAT('Link ', seq), '', seq % 10
 FROM seq_1_to_100;
