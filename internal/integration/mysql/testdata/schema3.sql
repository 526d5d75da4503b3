/*!40101 SET SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `stet_schema` (
  `version` int(11) NOT NULL,
  PRIMARY KEY (`version`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `stet_schema` VALUES (1);
INSERT INTO `stet_schema` VALUES (2);
INSERT INTO `stet_schema` VALUES (3);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `stet_records` (
  `scope` varbinary(1024) NOT NULL,
  `key` varbinary(1024) NOT NULL,
  `id` binary(16) NOT NULL,
  `version` bigint(20) NOT NULL CHECK (`version` > 0),
  `schema` int(11) NOT NULL,
  `tag` bigint(20) DEFAULT NULL,
  `state` varbinary(16) NOT NULL CHECK (`state` in ('running','completed','retryable','unknown','expired')),
  `status` bigint(20) NOT NULL,
  `flags` int(11) NOT NULL,
  `cause` mediumblob NOT NULL,
  `route` mediumblob NOT NULL,
  `downstream_key` mediumblob NOT NULL,
  `downstream_id` mediumblob NOT NULL,
  `due_at` bigint(20) DEFAULT NULL,
  `updated_at` bigint(20) NOT NULL,
  `created_at` bigint(20) NOT NULL,
  `completed_at` bigint(20) DEFAULT NULL,
  `head` mediumblob NOT NULL,
  `body` longblob NOT NULL,
  PRIMARY KEY (`scope`,`key`),
  KEY `stet_records_due` (`state`,`due_at`,`id`),
  KEY `stet_records_id` (`id`),
  KEY `stet_records_tag` (`tag`),
  KEY `stet_records_status` (`state`,`status`),
  KEY `stet_records_downstream_key` (`downstream_key`(64)),
  KEY `stet_records_downstream_id` (`downstream_id`(64))
) ENGINE=InnoDB DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `stet_records` VALUES (0x74656E616E742D31,0x76332D636F6D706C65746564,0x01A21DCDAE3C4122BFCBCE3799E95C2F,2377294722894212769,2,8697090295282631311,0x636F6D706C65746564,201,0,'',0x504F5354202F76312F7061796D656E7473,'','',NULL,1795796348477690,1795796348476835,1795796348477690,0x162BA39D080631206175746F09020C09686F73743A313233340E04504F53540F0C2F76312F7061796D656E7473151420036F70730561736B65640463685F310000,0x00D58EBC0102920303010C436F6E74656E742D547970650A746578742F706C61696E050A74686520616E73776572);
INSERT INTO `stet_records` VALUES (0x74656E616E742D31,0x76332D65787069726564,0x01A21DCDAE41F49A0D849F9E944FB3BC,5869999759154064337,2,-7694894320800771385,0x65787069726564,0,0,'',0x504F5354202F76312F7061796D656E7473,'','',NULL,1795796348481686,1795796348481148,NULL,0xB77F567D080631206175746F09020C09686F73743A313233340E04504F53540F0C2F76312F7061796D656E747320036F70730561736B65640463685F310000,0x3B4846CA);
INSERT INTO `stet_records` VALUES (0x74656E616E742D31,0x76332D726574727961626C65,0x01A21DCDAE3E9A0D8EFA69C01C9677BA,5294058663514527383,2,-4029300180138768878,0x726574727961626C65,0,0,'',0x504F5354202F76312F7061796D656E7473,'','',NULL,1795796348479062,1795796348478322,NULL,0xFC45C21A080631206175746F09020C09686F73743A313233340E04504F53540F0C2F76312F7061796D656E747320036F70730561736B65640463685F310000,0x87711D6D);
INSERT INTO `stet_records` VALUES (0x74656E616E742D31,0x76332D72756E6E696E67,0x01A21DCDAE3C307720A22EB11789A457,7762422944419561951,2,907490260491715083,0x72756E6E696E67,0,0,'',0x504F5354202F76312F7061796D656E7473,'','',1795796408476540,1795796348476540,1795796348476540,NULL,0x70A7035B080631206175746F09020C09686F73743A313233340E04504F53540F0C2F76312F7061796D656E74731B8080F89492A527,0x5C69E01D);
INSERT INTO `stet_records` VALUES (0x74656E616E742D31,0x76332D756E6B6E6F776E,0x01A21DCDAE3F60D53A3081422ECC9A99,6056082146746300267,2,5463424269027938099,0x756E6B6E6F776E,0,0,'',0x504F5354202F76312F7061796D656E7473,'','',NULL,1795796348480448,1795796348479450,NULL,0x4E6C99E0080631206175746F09020C09686F73743A313233340E04504F53540F0C2F76312F7061796D656E747320036F70730561736B65640463685F310000,0x151EE5E6);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `stet_history` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `scope` varbinary(1024) NOT NULL,
  `key` varbinary(1024) NOT NULL,
  `was` varbinary(16) NOT NULL,
  `became` varbinary(16) NOT NULL,
  `attempt` bigint(20) NOT NULL,
  `at` bigint(20) NOT NULL,
  `who` mediumblob NOT NULL,
  `why` mediumblob NOT NULL,
  `evidence` mediumblob NOT NULL,
  `notice` mediumblob NOT NULL,
  `action` mediumblob NOT NULL,
  `tag` mediumblob NOT NULL,
  `who_sum` bigint(20) GENERATED ALWAYS AS (crc32(`who`)) STORED,
  `tag_sum` bigint(20) GENERATED ALWAYS AS (crc32(`tag`)) STORED,
  PRIMARY KEY (`id`),
  KEY `stet_history_key` (`scope`,`key`,`id`),
  KEY `stet_history_tag` (`tag_sum`,`id`),
  KEY `stet_history_scope` (`scope`,`id`),
  KEY `stet_history_who` (`who_sum`,`id`)
) ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `stet_history` VALUES (1,0x74656E616E742D31,0x76332D636F6D706C65746564,0x72756E6E696E67,0x636F6D706C65746564,1,1795796348477690,0x6F7073,0x61736B6564,0x63685F31,'','',0x6B5F37386232343538623564643138323866,1526271103,2946926967);
INSERT INTO `stet_history` VALUES (2,0x74656E616E742D31,0x76332D726574727961626C65,0x72756E6E696E67,0x726574727961626C65,1,1795796348479062,0x6F7073,0x61736B6564,0x63685F31,'','',0x6B5F63383135306364353935363934363132,1526271103,3772886874);
INSERT INTO `stet_history` VALUES (3,0x74656E616E742D31,0x76332D756E6B6E6F776E,0x72756E6E696E67,0x756E6B6E6F776E,1,1795796348480448,0x6F7073,0x61736B6564,0x63685F31,'','',0x6B5F34626431666236643163613838663333,1526271103,1234632638);
INSERT INTO `stet_history` VALUES (4,0x74656E616E742D31,0x76332D65787069726564,0x72756E6E696E67,0x65787069726564,1,1795796348481686,0x6F7073,0x61736B6564,0x63685F31,'','',0x6B5F39353336336536323730376664326337,1526271103,944045695);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `stet_database` (
  `one` tinyint(4) NOT NULL CHECK (`one` = 1),
  `id` varbinary(36) NOT NULL,
  PRIMARY KEY (`one`)
) ENGINE=InnoDB DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `stet_database` VALUES (1,0x34356536356365612D656137652D313166312D613661322D303266633030303030303031);
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `stet_outbox` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `version` bigint(20) NOT NULL,
  `state` varbinary(16) NOT NULL CHECK (`state` in ('pending','running','done','unknown','dead','discarded')),
  `behind` bigint(20) NOT NULL,
  `attempt` bigint(20) NOT NULL,
  `scope` varbinary(1024) NOT NULL,
  `key` varbinary(1024) NOT NULL,
  `life` bigint(20) NOT NULL,
  `topic` varbinary(255) NOT NULL,
  `name` varbinary(255) NOT NULL,
  `order_key` varbinary(255) NOT NULL,
  `downstream_key` varbinary(64) NOT NULL,
  `downstream_id` mediumblob NOT NULL,
  `payload` longblob NOT NULL,
  `meta` mediumblob NOT NULL,
  `errors` mediumblob NOT NULL,
  `created_at` bigint(20) NOT NULL,
  `updated_at` bigint(20) NOT NULL,
  `due_at` bigint(20) NOT NULL,
  `line` varbinary(255) GENERATED ALWAYS AS (if(`state` in ('done','discarded') or `order_key` = '',NULL,`order_key`)) STORED,
  `key_honoured` tinyint(4) NOT NULL DEFAULT 0,
  PRIMARY KEY (`id`),
  UNIQUE KEY `stet_outbox_downstream_key` (`downstream_key`),
  KEY `stet_outbox_due` (`state`,`behind`,`due_at`,`id`),
  KEY `stet_outbox_order` (`line`,`id`)
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `stet_outbox` VALUES (1,7,0x70656E64696E67,0,0,'','',0,0x6D61696C,0x72656365697074,'',0x646B5F31,'',0x68656C6C6F,0x7B7D,'',1763000000000000,1763000000000000,1763000000000000,NULL,0);
SET @saved_cs_client     = @@character_set_client;
SET character_set_client = utf8mb4;
/*!50001 CREATE VIEW `stet_keys` AS SELECT
 NULL AS `id`,
 NULL AS `scope`,
 NULL AS `key`,
 NULL AS `state`,
 NULL AS `route`,
 NULL AS `status`,
 NULL AS `cause`,
 NULL AS `downstream_key`,
 NULL AS `downstream_id`,
 NULL AS `escalated`,
 NULL AS `created_at`,
 NULL AS `updated_at`,
 NULL AS `completed_at`,
 NULL AS `due_at` */;
SET character_set_client = @saved_cs_client;
/*!50001 DROP VIEW IF EXISTS `stet_keys`*/;
/*!50001 SET @saved_cs_client          = @@character_set_client */;
/*!50001 SET @saved_cs_results         = @@character_set_results */;
/*!50001 SET @saved_col_connection     = @@collation_connection */;
/*!50001 SET character_set_client      = utf8mb4 */;
/*!50001 SET character_set_results     = utf8mb4 */;
/*!50001 SET collation_connection      = utf8mb4_general_ci */;
/*!50001 CREATE ALGORITHM=UNDEFINED */
/*!50013 DEFINER=`root`@`127.0.0.1` SQL SECURITY INVOKER */
/*!50001 VIEW `stet_keys` AS select concat('k_',lcase(lpad(hex(`stet_records`.`tag`),16,'0'))) AS `id`,convert(`stet_records`.`scope` using utf8mb4) AS `scope`,convert(`stet_records`.`key` using utf8mb4) AS `key`,convert(case when `stet_records`.`state` = 'completed' and `stet_records`.`status` >= 500 then 'failed' else `stet_records`.`state` end using utf8mb4) AS `state`,convert(`stet_records`.`route` using utf8mb4) AS `route`,`stet_records`.`status` AS `status`,convert(`stet_records`.`cause` using utf8mb4) AS `cause`,convert(`stet_records`.`downstream_key` using utf8mb4) AS `downstream_key`,convert(`stet_records`.`downstream_id` using utf8mb4) AS `downstream_id`,`stet_records`.`flags` & 1 AS `escalated`,date_format('1970-01-01 00:00:00' + interval `stet_records`.`created_at` microsecond,'%Y-%m-%dT%H:%i:%s.%fZ') AS `created_at`,date_format('1970-01-01 00:00:00' + interval `stet_records`.`updated_at` microsecond,'%Y-%m-%dT%H:%i:%s.%fZ') AS `updated_at`,date_format('1970-01-01 00:00:00' + interval `stet_records`.`completed_at` microsecond,'%Y-%m-%dT%H:%i:%s.%fZ') AS `completed_at`,date_format('1970-01-01 00:00:00' + interval `stet_records`.`due_at` microsecond,'%Y-%m-%dT%H:%i:%s.%fZ') AS `due_at` from `stet_records` */;
/*!50001 SET character_set_client      = @saved_cs_client */;
/*!50001 SET character_set_results     = @saved_cs_results */;
/*!50001 SET collation_connection      = @saved_col_connection */;
