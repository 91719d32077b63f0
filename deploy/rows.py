"""Rows: what the board shows, from its top."""

from deploy.panel import Panel, Query, mean, percentiles, rate, rates

ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Now",
        (
            Panel(
                "State",
                "What each server is doing. Any other than ready takes no requests.",
                "none",
                (Query("tidemark_server_state{@} == 1", "{{instance}}: {{state}}"),),
                stat=True,
                width=6,
            ),
            Panel(
                "Sequences",
                "Those that run, wait in the queue, pause for a slow reader, or wait for a client to come back.",
                "none",
                tuple(
                    Query(f"sum(tidemark_requests_{state}{{@}})", state)
                    for state in ("running", "waiting", "paused", "parked")
                ),
                width=9,
            ),
            Panel(
                "Tokens a second",
                "Outputs handed to clients, and positions of prompts and outputs that were computed.",
                "none",
                (
                    rate("tidemark_positions_total", "published", '@, event="published"'),
                    rate("tidemark_positions_total", "computed", '@, event="computed"'),
                ),
                width=9,
            ),
        ),
    ),
    (
        "Cache",
        (
            Panel(
                "Blocks by state",
                "A partition that fills the capacity: no content, one owner, several owners, no owner but reusable.",
                "none",
                (
                    Query("sum by (state) (tidemark_kv_blocks{@})", "{{state}}"),
                    Query("sum(tidemark_kv_blocks_capacity{@})", "capacity", outline=True),
                ),
                stacked=True,
            ),
            Panel(
                "Blocks in use by group",
                "Where layers keep different things, which of them use the pool. Empty for a model of one kind.",
                "none",
                (Query("sum by (group, state) (tidemark_kv_group_blocks{@})", "{{group}}: {{state}}"),),
                stacked=True,
            ),
            Panel(
                "Recurrent states by state",
                "Slots that hold a running sequence's state, or a checkpoint. All 0 for a model without such layers.",
                "none",
                (
                    Query("sum by (state) (tidemark_state_slots{@})", "{{state}}"),
                    Query("sum(tidemark_state_slots_capacity{@})", "capacity", outline=True),
                ),
                stacked=True,
            ),
            Panel(
                "Held by sequences",
                "The part of the cache that can't be taken for others without a preemption.",
                "percentunit",
                (Query("tidemark_kv_usage_ratio{@}", "{{instance}}"),),
            ),
            Panel(
                "Prefix hit rate",
                "Prompt tokens found in the cache, of those looked up.",
                "percentunit",
                (
                    Query(
                        "sum(rate(tidemark_prefix_cache_hits_total{@}[$__rate_interval]))"
                        " / sum(rate(tidemark_prefix_cache_queries_total{@}[$__rate_interval]))",
                        "found",
                    ),
                ),
            ),
            Panel(
                "Held and empty",
                "Positions of held blocks that nothing was computed for: what whole blocks cost.",
                "none",
                (Query("sum(tidemark_kv_tail_positions{@})", "positions"),),
            ),
        ),
    ),
    (
        "Marks",
        (
            Panel(
                "Positions a second",
                "How fast the marks move. Computed without accepted is prompts; planned beyond computed is lost work.",
                "none",
                (rates("tidemark_positions_total", "event"),),
                width=12,
            ),
            Panel(
                "Marks that went back, a second",
                "Rejected drafts, preemptions, steps that failed, results that no longer fitted.",
                "none",
                (rates("tidemark_rollbacks_total", "reason"), rate("tidemark_preemptions_total", "preemptions")),
                width=6,
            ),
            Panel(
                "Positions a step",
                "How much a step computes, on average.",
                "none",
                (mean("tidemark_step_positions", "positions"),),
                width=6,
            ),
        ),
    ),
    (
        "Times",
        (
            Panel("Queue", "From arrival to admission.", "s", percentiles("tidemark_request_queue_seconds")),
            Panel(
                "First token",
                "From arrival to the first output.",
                "s",
                percentiles("tidemark_time_to_first_token_seconds"),
            ),
            Panel(
                "Gaps", "Between two outputs of a sequence.", "s", percentiles("tidemark_inter_token_latency_seconds")
            ),
            Panel(
                "Step by stage",
                "Mean time of a step's stages; model and sample are parts of execute.",
                "s",
                (mean("tidemark_step_seconds", "{{stage}}", by=" by (stage) "),),
            ),
            Panel(
                "What a step may take, and costs",
                "The goal for the next step with prompts, and what was learned that its parts cost.",
                "s",
                (
                    Query("max(tidemark_step_goal_seconds{@})", "goal"),
                    Query("max by (part) (tidemark_step_cost_seconds{@})", "{{part}}"),
                ),
            ),
            Panel(
                "Whole request",
                "From arrival to the answer's end.",
                "s",
                percentiles("tidemark_request_duration_seconds"),
            ),
        ),
    ),
    (
        "Drafts",
        (
            Panel(
                "Drafted tokens a second",
                "Guessed tokens that a step verified, by who guessed them.",
                "none",
                (rates("tidemark_draft_tokens_total", "source"),),
            ),
            Panel(
                "Kept",
                "Of the guessed tokens, those that stood. Low for long: drafts cost more than they give.",
                "percentunit",
                (
                    Query(
                        "sum by (source) (rate(tidemark_draft_tokens_accepted_total{@}[$__rate_interval]))"
                        " / sum by (source) (rate(tidemark_draft_tokens_total{@}[$__rate_interval]))",
                        "{{source}}",
                    ),
                ),
            ),
            Panel(
                "Rejections a second",
                "Drafts by who made them, those of which something fell, and positions that were planned and not kept.",
                "none",
                (
                    rates("tidemark_drafts_total", "source"),
                    rate("tidemark_rollbacks_total", "rejections", '@, reason="rejected"'),
                    rate("tidemark_positions_total", "rejected positions", '@, event="rejected"'),
                ),
            ),
        ),
    ),
    (
        "Grammars",
        (
            Panel(
                "Grammars a second, by outcome",
                "What requests asked for: compiled now, kept from before, or refused.",
                "none",
                (rates("tidemark_grammars_total", "outcome"),),
                stacked=True,
            ),
            Panel(
                "Compiling",
                "From asking for a grammar that is not kept until it is ready, or refused.",
                "s",
                percentiles("tidemark_grammar_compile_seconds"),
            ),
            Panel(
                "Waited for masks",
                "Of the time of steps, what they waited for the tokens that grammars allow.",
                "percentunit",
                (
                    Query(
                        'sum(rate(tidemark_step_seconds_sum{@, stage="masks"}[$__rate_interval]))'
                        ' / sum(rate(tidemark_step_seconds_sum{@, stage="execute"}[$__rate_interval]))',
                        "waited",
                    ),
                ),
            ),
        ),
    ),
    (
        "Requests",
        (
            Panel(
                "Ended a second, by outcome",
                "Finished, refused (the client's mistake, or no room), aborted (the client left), failed (ours).",
                "none",
                (rates("tidemark_requests_total", "outcome"),),
                stacked=True,
                width=6,
            ),
            Panel(
                "Ended a second, by endpoint",
                "The same requests by where they came in.",
                "none",
                (rates("tidemark_requests_total", "endpoint"),),
                stacked=True,
                width=6,
            ),
            Panel(
                "Refusals a second",
                "Turned away by the engine, by reason.",
                "none",
                (rates("tidemark_admission_refusals_total", "reason"),),
                width=6,
            ),
            Panel(
                "Errors",
                "Of the requests that ended in five minutes, those that failed.",
                "percentunit",
                (Query("tidemark:requests_failed:ratio_rate5m{@}", "{{instance}}"),),
                width=6,
            ),
            Panel(
                "Clients that left, a second",
                "Streams closed before their end.",
                "none",
                (rate("tidemark_client_disconnects_total", "left"),),
            ),
            Panel(
                "Tokens a request",
                "Mean sizes.",
                "none",
                (
                    mean("tidemark_request_prompt_tokens", "prompt"),
                    mean("tidemark_request_generated_tokens", "outputs"),
                ),
            ),
            Panel(
                "Process",
                "Resident memory: it grows with the load up to the cache's size, and then stays.",
                "bytes",
                (Query('process_resident_memory_bytes{job="tidemark", instance=~"$instance"}', "{{instance}}"),),
            ),
        ),
    ),
)
