// What the server sends, as JSDoc types. Nothing here runs.

/**
 * @typedef {object} Info What does not change while the server runs.
 * @property {string} model
 * @property {string} architecture
 * @property {number} context_length
 * @property {string} dtype
 * @property {string} layout
 * @property {number} block_size
 * @property {number} num_units
 * @property {number} unit_bytes
 * @property {{layout: string, width: number}[]} groups
 * @property {number} num_slots
 * @property {number} slot_bytes
 * @property {string | null} draft_model
 * @property {boolean} show_text
 *
 * @typedef {{first: number, kept: number, units: number[]}} TableChange
 * @typedef {object} Sequence One sequence at one moment. Marks are exclusive upper bounds on positions.
 * @property {string} id
 * @property {string} request_id
 * @property {number} choice
 * @property {string} state
 * @property {number} planned
 * @property {number} computed
 * @property {number} accepted
 * @property {number} published
 * @property {number} prompt_tokens
 * @property {number} output_tokens
 * @property {number | null} cached_tokens
 * @property {number} max_length
 * @property {number} priority
 * @property {number} arrived On the clock of the snapshot's time.
 * @property {TableChange[]} tables One for each cache group.
 * @property {number | null} [slot]
 *
 * @typedef {{block_size: number, capacity: number, free: number, allocated: number, shared: number, cached: number}} Pool
 * @typedef {{states?: string, changed?: [number, string][]}} Cells
 * @typedef {{number: number, sequence: string, step: number, position: number, drafted: number, kept: number, source: string}} Rejection
 * @typedef {{number: number, sequence: string, time: number, reason: string, error?: string}} Ended
 * @typedef {{running: number, waiting: number, paused: number, parked: number}} Unlisted
 * @typedef {{planned: number, computed: number, accepted: number, published: number, rejected: number, recomputed: number}} Positions
 * @typedef {object} Snapshot The engine at one moment, as the stream of snapshots has it: much of it is what changed.
 * @property {boolean} whole
 * @property {number} time
 * @property {string} server
 * @property {Info} [info]
 * @property {number} steps
 * @property {number} running
 * @property {number} waiting
 * @property {number} paused
 * @property {number} parked
 * @property {Unlisted} unlisted How many of each there are beside the sequences.
 * @property {Pool} pool
 * @property {Positions} positions
 * @property {Record<string, {drafts: number, tokens: number, kept: number}>} drafts
 * @property {{queries: number, hits: number}} prefix
 * @property {Cells} units
 * @property {Cells} [slots]
 * @property {Sequence[]} sequences
 * @property {Rejection[]} rejections
 * @property {Ended[]} ended
 *
 * @typedef {object} Step What one step did to one sequence.
 * @property {number} step
 * @property {number} time
 * @property {[number, number]} chunk
 * @property {number} planned
 * @property {number} computed
 * @property {number} accepted
 * @property {number} published
 * @property {number} tokens How many were accepted: the last ones below `accepted`.
 * @property {number} drafted
 * @property {number} kept
 * @property {string} source
 * @property {{tokens: number[], text: string}} [chosen]
 * @property {{tokens: number[], text: string}} [drafts]
 * @typedef {object} Happening What befell a sequence beside its steps, on their clock. Numbered from 1.
 * @property {number} number
 * @property {number} time
 * @property {string} event
 * @property {string} [reason] Why it was preempted or ended.
 * @property {string} [error] The code of the error that ended it.
 * @property {number} [cached_tokens] Found in the cache as it came to run.
 * @property {number} [lost] Positions that were in the cache that was taken.
 * @property {number} [freed] Units of it that were nobody else's.
 * @typedef {object} Story The steps of one sequence, and what befell it.
 * @property {string} sequence
 * @property {boolean} complete Whether it was seen from its first step on.
 * @property {string | null} ended
 * @property {number | null} prompt_tokens
 * @property {number | null} cached_tokens
 * @property {Step[]} steps
 * @property {Happening[]} events
 */

export {};
