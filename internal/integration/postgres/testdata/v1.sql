-- A store as it was before the first release (steps 1 to 3), with some records: what pg_dump has made of it.
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.stet_history (
    id bigint NOT NULL,
    scope text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    was text NOT NULL,
    became text NOT NULL,
    attempt bigint NOT NULL,
    at bigint NOT NULL,
    who text NOT NULL,
    why text NOT NULL,
    evidence text NOT NULL,
    notice text NOT NULL,
    action text NOT NULL,
    tag text NOT NULL
);
ALTER TABLE public.stet_history ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.stet_history_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.stet_records (
    scope text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    id bigint NOT NULL,
    version bigint NOT NULL,
    tag bigint,
    due_at bigint,
    updated_at bigint NOT NULL,
    created_at bigint NOT NULL,
    completed_at bigint,
    status bigint NOT NULL,
    flags smallint NOT NULL,
    schema smallint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    cause text NOT NULL,
    route text NOT NULL,
    downstream_key text NOT NULL COLLATE pg_catalog."C",
    downstream_id text NOT NULL COLLATE pg_catalog."C",
    head bytea NOT NULL,
    body bytea NOT NULL
)
WITH (fillfactor='70');
CREATE VIEW public.stet_keys AS
 SELECT ('k_'::text || lpad(to_hex(stet_records.tag), 16, '0'::text)) AS id,
    stet_records.scope,
    stet_records.key,
        CASE
            WHEN ((stet_records.state = 'completed'::text) AND (stet_records.status >= 500)) THEN 'failed'::text
            ELSE stet_records.state
        END AS state,
    stet_records.status,
    stet_records.route,
    stet_records.cause,
    stet_records.downstream_key,
    stet_records.downstream_id,
    (((stet_records.flags)::integer & 1) <> 0) AS escalated,
    ('1970-01-01 00:00:00+00'::timestamp with time zone + ((stet_records.created_at)::double precision * '00:00:00.000001'::interval)) AS created_at,
    ('1970-01-01 00:00:00+00'::timestamp with time zone + ((stet_records.updated_at)::double precision * '00:00:00.000001'::interval)) AS updated_at,
    ('1970-01-01 00:00:00+00'::timestamp with time zone + ((stet_records.completed_at)::double precision * '00:00:00.000001'::interval)) AS completed_at,
    ('1970-01-01 00:00:00+00'::timestamp with time zone + ((LEAST(stet_records.due_at, '9000000000000000'::bigint))::double precision * '00:00:00.000001'::interval)) AS due_at
   FROM public.stet_records;
CREATE TABLE public.stet_outbox (
    id bigint NOT NULL,
    version bigint NOT NULL,
    behind bigint NOT NULL,
    attempt bigint NOT NULL,
    life bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    due_at bigint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    topic text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    order_key text NOT NULL COLLATE pg_catalog."C",
    downstream_key text NOT NULL COLLATE pg_catalog."C",
    downstream_id text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL,
    meta text NOT NULL,
    errors text NOT NULL,
    key_honoured smallint DEFAULT 0 NOT NULL,
    CONSTRAINT stet_outbox_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'running'::text, 'done'::text, 'unknown'::text, 'dead'::text, 'discarded'::text])))
);
ALTER TABLE public.stet_outbox ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.stet_outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE public.stet_records ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.stet_records_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.stet_schema (
    version integer NOT NULL
);
INSERT INTO public.stet_history OVERRIDING SYSTEM VALUE VALUES (1, 'tenant', 'unknown', 'running', 'unknown', 1, 1795795155758004, 'ann', 'looked', '', '', 'snooze', 'k_00000000000000a3');
INSERT INTO public.stet_outbox OVERRIDING SYSTEM VALUE VALUES (1, 1, 0, 0, 0, 1, 1, 1, 'pending', '', '', 'receipt', '', '', 'dk', '', '\x78', '{}', '', 0);
INSERT INTO public.stet_records OVERRIDING SYSTEM VALUE VALUES ('tenant', 'running', 1, 4878920201447592501, 161, 1795795215751195, 1795795155751195, 1795795155751195, NULL, 0, 0, 2, 'running', '', 'charges', '', '', '\x9b5a9af6080631206175746f09020c06686f73743a310e04504f53540f0b2f76312f636861726765731b8080c58bc6d101', '\x746cba96');
INSERT INTO public.stet_records OVERRIDING SYSTEM VALUE VALUES ('tenant', 'Zürich \\ \x00', 2, 3558778546077585847, 162, 4949395155752682, 1795795155752682, 1795795155751919, 1795795155752682, 201, 0, 2, 'completed', '', 'charges', '', '', '\xbbef419a080631206175746f09020c06686f73743a310e04504f53540f0b2f76312f63686172676573151a1b8080c58bc6d101', '\xdbd9dae00102920303010c436f6e74656e742d54797065106170706c69636174696f6e2f6a736f6e050d7b226964223a2263685f31227d');
INSERT INTO public.stet_records OVERRIDING SYSTEM VALUE VALUES ('tenant', 'unknown', 3, 2862965824083553279, 163, 4949395155758004, 1795795155758004, 1795795155755975, NULL, 0, 0, 2, 'unknown', 'lapsed', 'charges', '', '', '\xefd5d410080631206175746f09020c06686f73743a310e04504f53540f0b2f76312f636861726765731b8080c58bc6d1012003616e6e066c6f6f6b6564000006736e6f6f7a65', '\x3d1bbf6d');
INSERT INTO public.stet_schema VALUES (1);
INSERT INTO public.stet_schema VALUES (2);
INSERT INTO public.stet_schema VALUES (3);
SELECT pg_catalog.setval('public.stet_history_id_seq', 1, true);
SELECT pg_catalog.setval('public.stet_outbox_id_seq', 1, true);
SELECT pg_catalog.setval('public.stet_records_id_seq', 3, true);
ALTER TABLE ONLY public.stet_history
    ADD CONSTRAINT stet_history_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.stet_outbox
    ADD CONSTRAINT stet_outbox_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.stet_records
    ADD CONSTRAINT stet_records_pkey PRIMARY KEY (scope, key);
ALTER TABLE ONLY public.stet_schema
    ADD CONSTRAINT stet_schema_pkey PRIMARY KEY (version);
CREATE INDEX stet_history_key ON public.stet_history USING btree (scope, key, id);
CREATE INDEX stet_history_scope ON public.stet_history USING btree (scope, id);
CREATE INDEX stet_history_tag ON public.stet_history USING btree (md5(tag), id);
CREATE INDEX stet_history_who ON public.stet_history USING btree (md5(who), id);
CREATE UNIQUE INDEX stet_outbox_downstream_key ON public.stet_outbox USING btree (downstream_key);
CREATE INDEX stet_outbox_halted ON public.stet_outbox USING btree (state, id) WHERE (state = ANY (ARRAY['unknown'::text, 'dead'::text]));
CREATE INDEX stet_outbox_order ON public.stet_outbox USING btree (order_key, id) WHERE ((order_key <> ''::text) AND (state <> ALL (ARRAY['done'::text, 'discarded'::text])));
CREATE INDEX stet_outbox_pending ON public.stet_outbox USING btree (behind, due_at, id) WHERE (state = 'pending'::text);
CREATE INDEX stet_outbox_running ON public.stet_outbox USING btree (due_at) WHERE (state = 'running'::text);
CREATE INDEX stet_records_completed ON public.stet_records USING btree (due_at, id) WHERE (state = 'completed'::text);
CREATE INDEX stet_records_downstream_id ON public.stet_records USING hash (downstream_id) WHERE (downstream_id <> ''::text);
CREATE INDEX stet_records_downstream_key ON public.stet_records USING hash (downstream_key) WHERE (downstream_key <> ''::text);
CREATE INDEX stet_records_expired ON public.stet_records USING btree (due_at, id) WHERE (state = 'expired'::text);
CREATE INDEX stet_records_failed ON public.stet_records USING btree (id) WHERE ((state = 'completed'::text) AND (status >= 500));
CREATE INDEX stet_records_id ON public.stet_records USING btree (id);
CREATE INDEX stet_records_retryable ON public.stet_records USING btree (due_at, id) WHERE (state = 'retryable'::text);
CREATE INDEX stet_records_running ON public.stet_records USING btree (due_at, id) WHERE (state = 'running'::text);
CREATE INDEX stet_records_tag ON public.stet_records USING btree (tag) WHERE (tag IS NOT NULL);
CREATE INDEX stet_records_unknown ON public.stet_records USING btree (due_at, id) WHERE (state = 'unknown'::text);
