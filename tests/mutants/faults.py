"""The faults that the tests must find. E numbers are public faults of other engines, laws are DESIGN.md's."""

from tests.mutants.edits import Edit, Mutant


def mutant(fault: str, what: str, *edits: tuple[str, str, str, str]) -> Mutant:
    """A mutant of several edits: module, function, old text, new text."""
    return Mutant(fault, what, tuple(Edit(*edit) for edit in edits))


MUTANTS = (
    mutant(
        "E1",
        "the last token of a chunk counts twice as computed",
        ("engine/commit.py", "Commit._apply", "Computed(computed)", "Computed(computed + 1)"),
        ("engine/ledger.py", "Ledger.commit", "computed <= self._planned", "computed <= self._planned + 1"),
    ),
    mutant(
        "E1",
        "a hit covers the last token, and nothing is left to compute",
        ("engine/sequence.py", "Sequence.max_hit", "len(self.tokens) - 1\n", "len(self.tokens)\n"),
        ("engine/ledger.py", "Ledger.admit", "hit < self._accepted", "hit <= self._accepted"),
    ),
    mutant(
        "E2",
        "a result is committed whatever its ticket says",
        ("engine/commit.py", "_fits", "return ticket == chunk.ticket and", "return True or"),
    ),
    mutant(
        "E2",
        "a dropped result leaves its positions planned",
        ("engine/commit.py", "Commit._drop", "sequence.ledger.in_flight", "sequence.finished"),
    ),
    mutant(
        "E3",
        "what arrives while the stream is stalled is lost",
        (
            "engine/stream.py",
            "DeltaStream.put",
            "        self._deltas.append(delta)\n",
            "        if self._patience is None or delta.end:\n            self._deltas.append(delta)\n",
        ),
    ),
    mutant(
        "E4",
        "a preempted sequence forgets its outputs and sends them again",
        (
            "engine/sequence.py",
            "Sequence.invalidate",
            "        self.epoch += 1\n",
            "        self.epoch += 1\n        del self.tokens[self.num_prompt :]\n",
        ),
    ),
    mutant(
        "E4",
        "an invalidation lowers what is published",
        ("engine/ledger.py", "Ledger.invalidate", "= 0", "= 0\n        self._published = self._prompt"),
    ),
    mutant(
        "E5",
        "an abort gives blocks back while the step that writes them is in flight",
        ("engine/engine.py", "Engine.open", "wake=self._wake.set", "wake=self._admit"),
    ),
    mutant(
        "E6",
        "blocks behind a window are given back when what follows is planned",
        (
            "engine/plan.py",
            "_issue",
            "    sequence.ledger.plan(Planned(upto))\n",
            "    sequence.ledger.plan(Planned(upto))\n    tables._release_behind(sequence)\n",
        ),
        (
            "engine/cache/tables.py",
            "BlockTables._release_behind",
            "group.first_seen(sequence.ledger.computed)",
            "group.first_seen(sequence.ledger.planned)",
        ),
    ),
    mutant(
        "E7",
        "blocks are indexed when they are planned",
        (
            "engine/plan.py",
            "reserve",
            "    return Plan(number, tuple(_issue(grant, incarnation, tables) for grant in decision.grants))\n",
            "    plan = Plan(number, tuple(_issue(grant, incarnation, tables) for grant in decision.grants))\n"
            "    for grant in decision.grants:\n"
            "        tables.index(grant.sequence)\n"
            "    return plan\n",
        ),
        ("engine/cache/tables.py", "BlockTables.index", "min(sequence.ledger.computed", "min(sequence.ledger.planned"),
    ),
    mutant(
        "E8",
        "an evicted block stays reachable",
        ("engine/cache/blocks.py", "BlockPool._evict", "        self._on_evict(block)\n", ""),
    ),
    mutant(
        "E8",
        "an indexed block is given back as free and stays reachable",
        ("engine/cache/blocks.py", "BlockPool._give_back", "if block in self._indexed:", "if False:"),
    ),
    mutant(
        "E9",
        "a checkpoint is known when it is planned",
        (
            "engine/plan.py",
            "_issue",
            "    sequence.ledger.plan(Planned(upto))\n",
            "    sequence.ledger.plan(Planned(upto))\n    tables.index(sequence)\n",
        ),
        ("engine/cache/tables.py", "BlockTables.index", "min(sequence.ledger.computed", "min(sequence.ledger.planned"),
        ("engine/cache/slots.py", "StateSlots.commit", "sequence.ledger.computed", "sequence.ledger.planned"),
        ("engine/cache/tables.py", "BlockTables._index_blocks", "if index.insert(prefix, number, block):", "if False:"),
    ),
    mutant(
        "E9",
        "a checkpoint is known for the block before it",
        (
            "engine/cache/slots.py",
            "StateSlots.commit",
            "self.index.insert(prefix, position // self.block_size - 1, slot)",
            "self.index.insert(prefix, max(0, position // self.block_size - 2), slot)",
        ),
    ),
    mutant(
        "E9",
        "the slot of a live state is made known as it is",
        (
            "engine/cache/slots.py",
            "StateSlots.release",
            "        self.pool.release(list(held.slots()))\n",
            "        self.pool._indexed.update(held.slots())\n        self.pool.release(list(held.slots()))\n",
        ),
    ),
    mutant(
        "E10",
        "a sequence's first step goes on from what its slot held before",
        (
            "engine/cache/tables.py",
            "BlockTables.use_states",
            "StateUse(None if from_nothing else source,",
            "StateUse(None if from_nothing and upto > 1 else source,",
        ),
    ),
    mutant(
        "E11",
        "values of places that nobody wrote are multiplied by 0 instead of left out",
        (
            "engine/model/attention.py",
            "PagedAttention._attend_pairs",
            ".masked_fill_(pairs.unheld, 0.0)",
            "",
        ),
    ),
    mutant(
        "E11",
        "places that nobody wrote are scored",
        (
            "engine/model/attention.py",
            "PagedAttention._attend_pairs",
            ".masked_fill_(pairs.hidden, -torch.inf)",
            "",
        ),
    ),
    mutant(
        "E12",
        "one group's window is taken for every group's",
        (
            "engine/cache/tables.py",
            "BlockTables._release_behind",
            "group.first_seen(sequence.ledger.computed)",
            "max(each.first_seen(sequence.ledger.computed) for each in self.layout.groups)",
        ),
    ),
    mutant(
        "law 9",
        "a window gives back the block that its first position stands in",
        (
            "engine/cache/tables.py",
            "BlockTables._release_behind",
            "// self.block_size - table.first",
            "// self.block_size + 1 - table.first",
        ),
    ),
    mutant(
        "law 10",
        "after a hit the checkpoint is not read",
        (
            "engine/cache/tables.py",
            "BlockTables.use_states",
            "held.source if held.source is not None else held.slot",
            "held.slot",
        ),
    ),
    mutant(
        "law 10",
        "a checkpoint may be evicted while the step that starts from it is in flight",
        ("engine/cache/slots.py", "StateSlots.seat", "            self.pool.share([checkpoint])\n", ""),
        ("engine/held.py", "Held.slots", "self.source, ", ""),
        ("engine/cache/slots.py", "StateSlots.commit", "            self.pool.release([held.source])\n", ""),
    ),
    mutant(
        "law 11",
        "a hit is valid in the first group alone",
        (
            "engine/cache/hits.py",
            "Hits._longest_behind",
            "if index.find(prefix, number) is None:",
            "if False:",
        ),
    ),
    mutant(
        "law 11",
        "a hit is taken where no checkpoint stands",
        ("engine/cache/slots.py", "StateSlots.longest", "if slot is not None:", "if True:"),
    ),
    mutant(
        "law 11",
        "a checkpoint further back is taken with a window that is gone",
        (
            "engine/cache/hits.py",
            "Hits._longest_with_state",
            "count = self._longest_known(prefix, before)",
            "count = before",
        ),
    ),
    mutant(
        "law 6",
        "a checkpoint whose step is taken back keeps its slot",
        (
            "engine/cache/slots.py",
            "StateSlots.release",
            "self.pool.release(list(held.slots()))",
            "self.pool.release([slot for slot in (held.slot, held.source) if slot is not None])",
        ),
    ),
    mutant(
        "E15",
        "a request that can never fit is taken",
        (
            "engine/admission.py",
            "Admission._refuse_what_can_never_run",
            "len(request.prompt) + room_needed > self._context_length",
            "False",
        ),
    ),
    mutant(
        "E16",
        "nobody gives way, so two sequences hold what the other needs",
        ("engine/plan.py", "_victims_for", "other.order > sequence.order", "False"),
    ),
    mutant(
        "E16",
        "sequences start although what the running ones still need is not there",
        ("engine/admission.py", "Admission.admit", "self._make_room(needed + reserved,", "self._make_room(needed,"),
    ),
    mutant(
        "E17",
        "a sequence that ends keeps its blocks",
        ("engine/commit.py", "Commit._advance", "            self._tables.release(sequence)\n", ""),
    ),
    mutant(
        "E17",
        "an abort is seen only in sequences that run",
        (
            "engine/admission.py",
            "Admission.aborted",
            "if sequence.aborted]",
            "if sequence.aborted and sequence.state is State.RUNNING]",
        ),
    ),
    mutant(
        "E17",
        "a client that leaves is not noticed",
        ("engine/stream.py", "DeltaStream.close", "sequence.aborted = True", "sequence.aborted = sequence.aborted"),
    ),
    mutant(
        "E18",
        "a preempted request scores its prompt again",
        ("engine/plan.py", "_score_range", "max(computed, len(sequence.prompt_logprobs) - 1)", "computed"),
    ),
    mutant(
        "E18",
        "a hit skips prompt tokens whose score is still wanted",
        (
            "engine/sequence.py",
            "Sequence.max_hit",
            "return min(longest, len(self.prompt_logprobs) - 1)",
            "return longest",
        ),
    ),
    mutant(
        "E18",
        "logprobs are those of the next token",
        (
            "engine/commit.py",
            "_tokens",
            "OutputToken(token, span.offset, span.in_text, logprob)",
            "OutputToken(token, span.offset, span.in_text, output.held[0][1] if output.held else logprob)",
        ),
    ),
    mutant(
        "E20",
        "a stop cuts the text and the list of tokens, but not the usage",
        ("engine/commit.py", "_tokens", "for span in released.spans:", "for span in filter(_in_text, released.spans):"),
        (
            "engine/commit.py",
            "_tokens",
            "    return tuple(tokens)\n",
            "    return tuple(tokens)\n\n\ndef _in_text(span):\n    return span.in_text\n",
        ),
    ),
    mutant(
        "E21",
        "a prompt that ends in half a character is sent back",
        (
            "engine/text.py",
            "TextStream.__init__",
            "_begun_character(vocabulary, prompt)",
            'b"".join(vocabulary.bytes_of(token, skip_special=False) for token in prompt)',
        ),
    ),
    mutant(
        "E22",
        "usage is what was sent so far",
        ("engine/sequence.py", "Sequence.usage", "self.ledger.accepted", "self.ledger.published"),
    ),
    mutant(
        "E23",
        "masks move the grammar itself, so it runs ahead of a draft that is rejected",
        ("engine/grammar/masks.py", "MaskWork.masks", "self.matcher.copy() if self.drafts else ", ""),
    ),
    mutant(
        "E23",
        "the grammar takes drafts as they are planned",
        (
            "engine/grammar/grammars.py",
            "Grammars.allowed",
            "tokens[: record.matcher.num_allowed(tokens)]",
            "tuple(token for token in tokens if record.matcher.take(token))",
        ),
    ),
    mutant(
        "E23",
        "the grammar is behind: the token after the last draft that stood is not taken",
        (
            "engine/commit.py",
            "Commit._accept",
            "            if not self._grammars.take(sequence, token):",
            "            if len(accepted) < max(1, len(chosen) - 1) and not self._grammars.take(sequence, token):",
        ),
    ),
    mutant(
        "E23",
        "a grammar begins again where the cache is taken back",
        (
            "engine/commit.py",
            "Commit._drop",
            "        preempt(sequence, Loss.STALE, roster=self._roster, tables=self._tables, stats=self._stats)\n",
            "        preempt(sequence, Loss.STALE, roster=self._roster, tables=self._tables, stats=self._stats)\n"
            "        if (compiled := self._grammars.compiled(sequence.request)) is not None:\n"
            "            self._grammars.start(sequence, compiled)\n",
        ),
    ),
    mutant(
        "E23",
        "a row has the mask of the row before it",
        (
            "engine/grammar/masks.py",
            "MaskWork.masks",
            "enumerate(self.drafts, start=1)",
            "enumerate((None, *self.drafts[:-1]), 1)",
        ),
        (
            "engine/grammar/masks.py",
            "MaskWork.masks",
            "matcher.take(draft)",
            "draft is None or matcher.take(draft)",
        ),
    ),
    mutant(
        "E23",
        "a matcher is moved while masks are still made from it",
        ("engine/grammar/grammars.py", "Grammars._record_of", "            wait((self._making,))\n", ""),
    ),
    mutant(
        "E23",
        "masks are given to chunks in another order",
        ("engine/grammar/masks.py", "make_masks", "for work in works))", "for work in reversed(list(works))))"),
    ),
    mutant(
        "E23",
        "every row of a draft has the mask of the first",
        ("engine/model/answer.py", "_asks", "mask=masks[count] if masks else None", "mask=masks[0] if masks else None"),
    ),
    mutant(
        "law 17",
        "a row that chooses takes no notice of its mask",
        ("engine/model/sampler.py", "_mask", "refused, -torch.inf", "refused, 0.0"),
    ),
    mutant(
        "law 17",
        "what the grammar refuses is accepted",
        (
            "engine/commit.py",
            "Commit._accept",
            "if not self._grammars.take(sequence, token):",
            "if self._grammars.take(sequence, token) is None:",
        ),
    ),
    mutant(
        "law 17",
        "a complete output goes on",
        ("engine/commit.py", "Commit._stop_at", "self._grammars.is_over(sequence)", "False"),
    ),
    mutant(
        "law 17",
        "a matcher is kept behind its sequence's end",
        ("engine/commit.py", "Commit._advance", "            self._grammars.forget(sequence)\n", ""),
    ),
    mutant(
        "law 17",
        "an output may end where its grammar does not let it",
        ("engine/grammar/masks.py", "MaskWork._mask", "matcher.mask()", "matcher.mask() or b'\\1'"),
        ("engine/grammar/masks.py", "MaskWork._mask", "*self.endless}", "}"),
    ),
    mutant(
        "grammar",
        "what can't be said in other words is left out",
        ("engine/grammar/rewording.py", "_listed", "return None if said is None", "return [] if said is None"),
    ),
    mutant(
        "grammar",
        "of what an opposite is made of, that which can't be said is left out",
        ("engine/grammar/opposite.py", "_joined", "return None", "telling.remove(None)"),
    ),
    mutant(
        "grammar",
        "a number that is not kept becomes another in the answer",
        ("engine/grammar/bounds.py", "check_schema", "_check_numbers(part)", "pass"),
    ),
    mutant(
        "grammar",
        "what a pattern's class lists is an operator",
        ("engine/grammar/patterns.py", "in_librarys_syntax", "part[0] in _OPERATORS", "False"),
    ),
    mutant(
        "grammar",
        "a grammar that nobody begins is at fault",
        ("engine/grammar/compiler.py", "Compiler.prepare", "not future.cancel()", "not None"),
    ),
    mutant(
        "grammar",
        "a process that runs on with a grammar is asked again",
        ("engine/grammar/trial.py", "Tried._try", "process.end()", "self._idle.append(process)"),
    ),
    mutant(
        "grammar",
        "what is repeated too often is found where the answer comes to it",
        ("engine/grammar/bounds.py", "_checked", "repeats > MAX_REPEATS", "repeats > 10**99"),
    ),
    mutant(
        "grammar",
        "what is within a grammar is compiled where the answer comes to it",
        ("engine/grammar/guidance.py", "Guidance.compile", "        self._check(hidden)\n", ""),
    ),
    mutant(
        "grammar",
        "a grammar may have a token in its middle that ends the answer",
        ("engine/grammar/translate.py", "_written", ") is not None:", ") == 0:"),
    ),
    mutant(
        "grammar",
        "what must come next is looked for however far away it is",
        ("engine/grammar/translate.py", "_lark", "repeats <= MAX_FORESEEN", "repeats"),
    ),
    mutant(
        "grammar",
        "a tag that begins with the longer of two triggers is never met",
        ("server/tags.py", "_Rules._triggered", "min(fitting, key=len", "max(fitting, key=len"),
    ),
    mutant(
        "grammar",
        "what is to be a special token is written with other tokens",
        ("server/tags.py", "_asked", "if mark and any", "if not mark and any"),
    ),
    mutant(
        "grammar",
        "a call that begins with what models add is a free text",
        ("server/calling.py", "_like_an_object", "{space}{before}(", "{space}("),
    ),
    mutant(
        "grammar",
        "a grammar that fails late does not say which field asked for it",
        ("server/structure.py", "settled", "name=name_of(asked.param, names)", "name=''"),
    ),
    mutant(
        "law 18",
        "a ban that leaves nothing of the mask wins",
        (
            "engine/grammar/masks.py",
            "MaskWork._mask",
            "return wanted if any_allowed(wanted) else mask",
            "return wanted",
        ),
    ),
    mutant(
        "E24",
        "the choices of one request do not wait for its prompt and each need all its blocks",
        ("engine/cache/tables.py", "BlockTables.leads", "leader.keys[number] == follower.keys[number]", "False"),
    ),
    mutant(
        "E24",
        "sequences start without a look at what is free",
        ("engine/admission.py", "Admission.admit", "if not self._make_room(needed + reserved, match):", "if False:"),
    ),
    mutant(
        "E25",
        "the pool promises a block that it does not have",
        (
            "engine/cache/blocks.py",
            "BlockPool.num_available",
            "len(self._free) + self._num_cached_units",
            "len(self._free) + self._num_cached_units + 1",
        ),
    ),
    mutant(
        "E25",
        "blocks of one's own hit are counted as free",
        (
            "engine/cache/tables.py",
            "BlockTables.has_room",
            " - self.pool.num_cached(match.blocks)",
            "",
        ),
    ),
    mutant(
        "E25",
        "blocks that a victim shares are counted as freed",
        (
            "engine/cache/blocks.py",
            "BlockPool.num_freed_by",
            "if self._references[block] == count",
            "if count",
        ),
    ),
    mutant(
        "E26",
        "the most recently released block is evicted first",
        ("engine/cache/blocks.py", "BlockPool._take", "next(iter(self._cached))", "next(reversed(self._cached))"),
    ),
    mutant(
        "E26",
        "a table's head is evicted before its tail",
        ("engine/cache/blocks.py", "BlockPool.release", "in reversed(blocks):", "in blocks:"),
    ),
    mutant(
        "E27",
        "a block is indexed with a token that was accepted and never computed",
        (
            "engine/cache/tables.py",
            "BlockTables.index",
            "min(sequence.ledger.computed, sequence.ledger.accepted)",
            "sequence.ledger.accepted",
        ),
    ),
    mutant(
        "E28",
        "blocks are found by their own tokens, whatever stands before them",
        ("engine/cache/prefix.py", "PrefixKeys.extend", '_digest(b"block", parent,', '_digest(b"block", b"",'),
        ("engine/cache/prefix.py", "PrefixIndex.find", "entry.parent != prefix.parent(index) or ", ""),
    ),
    mutant(
        "E28",
        "a hit's last position is computed again, into a shared block",
        (
            "engine/cache/hits.py",
            "Hits.match",
            "Match(count * size, firsts",
            "Match(max(0, count * size - 1), firsts",
        ),
    ),
    mutant(
        "law 12",
        "tenants share their blocks",
        ("engine/cache/prefix.py", "PrefixKeys.root", "salt.encode(", '"".encode('),
    ),
    mutant(
        "E13",
        "a tenant's salt runs on into the name of what it is served",
        (
            "engine/cache/prefix.py",
            "PrefixKeys.root",
            'self._fingerprint.encode(), salt.encode(errors="surrogatepass")',
            'self._fingerprint.encode() + salt.encode(errors="surrogatepass")',
        ),
    ),
    mutant(
        "E14",
        "new weights hit the old cache",
        ("engine/cache/prefix.py", "PrefixKeys.root", "self._fingerprint.encode()", 'b""'),
    ),
    mutant(
        "law 4",
        "a worker's earlier life is believed",
        ("engine/commit.py", "_fits", "(sequence.epoch, incarnation,", "(sequence.epoch, ticket.incarnation,"),
    ),
    mutant(
        "law 16",
        "a stopped engine leaves its streams open",
        ("engine/engine.py", "Engine._end_all", "for sequence in list(self._roster):", "for sequence in ():"),
        (
            "engine/engine.py",
            "Engine._end_all",
            "            self._publisher.end_all(EngineStopped())\n",
            "            pass\n",
        ),
    ),
    mutant(
        "law 16",
        "a drain leaves what is parked without an end",
        ("engine/engine.py", "Engine._admit", "if self._draining:", "if self._stopping:"),
    ),
    mutant(
        "law 6",
        "a client that may come back keeps its blocks",
        ("engine/admission.py", "Admission.settle_parks", "if sequence.held.anything:", "if sequence.aborted:"),
        ("engine/sequence.py", "Sequence.check", "State.WAITING, State.PARKED,", "State.WAITING,"),
    ),
    mutant(
        "law 14",
        "what arrives while the client is away is lost",
        ("engine/publish.py", "Publisher.publish", "if not outlet.stream.closed:", "if not outlet.sequence.parked:"),
    ),
    mutant(
        "law 18",
        "who comes back is not queued again",
        ("engine/admission.py", "Admission.settle_parks", "if not parked.parked]", "if parked.aborted]"),
    ),
    mutant(
        "law 18",
        "a suspect is cleared by its first chunk and fails for ever",
        ("engine/commit.py", "Commit._apply", "if sequence.ledger.computed >= sequence.failed_upto:", "if True:"),
    ),
    mutant(
        "law 18",
        "the oldest sequence can lose its cache",
        ("engine/plan.py", "_victims_for", "other.order > sequence.order", "other is not sequence"),
    ),
    mutant(
        "law 18",
        "short prompts starve a long one",
        ("engine/plan.py", "_share_room", "max(1, _most_within(oldest, room.part, prices))", "1"),
    ),
    mutant(
        "law 18",
        "short prompts starve the oldest sequence",
        (
            "engine/plan.py",
            "_share_room",
            "    kept = _taken(oldest, max(1, _most_within(oldest, room.part, prices)), prices)\n",
            "    kept = _taken(oldest, 0, prices)\n",
        ),
        ("engine/plan.py", "_share_room", "least = 1 if sequence is oldest else 0", "least = 0"),
    ),
    mutant(
        "law 18",
        "a step without time for prompts computes none",
        ("engine/plan.py", "_share_room", "least = 1 if sequence is oldest else 0", "least = 0"),
    ),
    mutant(
        "pace",
        "a step's time does not bound its prompts",
        ("engine/plan.py", "_most_within", "room.seconds, key", "float('inf'), key"),
    ),
    mutant(
        "pace",
        "what scores cost is taken for the cost of positions",
        ("engine/pace.py", "Pace._learn", "if scores >= SHOWS * total:", "if False:"),
    ),
    mutant(
        "pace",
        "what streams alone take is never looked at while prompts wait",
        (
            "engine/pace.py",
            "Pace.seconds_for_prompts",
            "if streams.count and self._until_look == 0",
            "if False",
        ),
    ),
    mutant(
        "pace",
        "a machine that became busy is taken for dear prompts",
        ("engine/pace.py", "Pace.observe", "abs(surprise) > SURPRISE", "False"),
    ),
    mutant(
        "pace",
        "one outlier counts in full",
        ("engine/pace.py", "_moved", "min(max(error, -0.5), 1.0)", "error"),
    ),
    mutant(
        "law 18",
        "a sequence that is read again is not resumed",
        ("engine/stream.py", "DeltaStream._resume", "sequence.stalled = False", "sequence.stalled = True"),
    ),
    mutant(
        "law 19",
        "an abort of one that is in flight ends it at commit as well",
        ("engine/stream.py", "DeltaStream.close", "        if self.closed:\n            return\n", ""),
    ),
    mutant(
        "law 20",
        "every choice draws the first one's randomness",
        ("engine/plan.py", "_choose", "choice=sequence.choice", "choice=0"),
    ),
    mutant(
        "law 22",
        "the mean of hidden states leaves out what a prefix hit brought",
        ("engine/sequence.py", "Sequence.max_hit", "min(longest, self.pooled_upto)", "longest"),
    ),
    mutant(
        "law 22",
        "hidden states that are computed again are added again",
        ("engine/plan.py", "_pool", "max(sequence.ledger.computed, sequence.pooled_upto)", "sequence.ledger.computed"),
    ),
    mutant(
        "law 22",
        "a chunk's first rows are pooled for its last ones",
        ("engine/step.py", "Plan.pooled_rows", "range(end - chunk.num_pooled, end)", "range(chunk.num_pooled)"),
    ),
    mutant(
        "law 22",
        "randomness depends on the step",
        ("engine/plan.py", "_choose", "output_index=num_outputs", "output_index=sequence.ledger.planned"),
    ),
    mutant(
        "drafts",
        "a draft stands whatever the target chose in its place",
        ("engine/step.py", "num_standing", "if draft != token", "if False"),
    ),
    mutant(
        "drafts",
        "positions of drafts that fell count as computed",
        ("engine/commit.py", "Commit._apply", "chunk.owed_stop + max(0, len(accepted) - 1)", "chunk.stop"),
    ),
    mutant(
        "drafts",
        "a draft takes the place of the last token that may come",
        ("engine/draft/drafts.py", "Drafts._most_for", "len(sequence.tokens) - 1", "len(sequence.tokens)"),
    ),
    mutant(
        "drafts",
        "a sequence that broke a step drafts as before",
        (
            "engine/plan.py",
            "plan_step",
            "_share_step(suspects[:1], limits, pace)",
            "add_drafts(_share_step(suspects[:1], limits, pace), DraftRoom(4, 4), tables, pace, drafts)",
        ),
    ),
    mutant(
        "draft model",
        "its last guess counts as computed by it",
        ("engine/commit.py", "_fed_upto", "max(0, chunk.num_guesses - 1)", "chunk.num_guesses"),
    ),
    mutant(
        "draft model",
        "its mark stays behind guesses that fell",
        (
            "engine/cache/tables.py",
            "BlockTables.settled",
            "upto = min(upto, computed)",
            "computed = max(upto, computed)",
        ),
        ("engine/ledger.py", "Ledger.draft", "assert 0 <= upto <= self._computed", "assert 0 <= upto"),
        ("engine/ledger.py", "Ledger.check", "self._drafted <= self._computed <= self._planned", "self._computed"),
    ),
    mutant(
        "draft model",
        "its mark survives a preemption",
        (
            "engine/ledger.py",
            "Ledger.invalidate",
            "self._planned = self._computed = self._drafted = 0",
            "self._planned = self._computed = 0",
        ),
        ("engine/ledger.py", "Ledger.admit", "        self._drafted = drafted\n", ""),
    ),
    mutant(
        "draft model",
        "whatever a prefix hit found is taken for computed by it",
        ("engine/admission.py", "Admission._start", "self._tables.drafted_upto(sequence)", "match.num_positions"),
        ("engine/cache/tables.py", "BlockTables._check_drafted", "self._drafted.issuperset(blocks[:number])", "True"),
    ),
    mutant(
        "draft model",
        "places that are handed out again keep what was known of them",
        ("engine/cache/tables.py", "BlockTables.reserve", "self._drafted.difference_update(new)", "pass"),
    ),
    mutant(
        "draft model",
        "a full block counts before all of it is computed",
        (
            "engine/cache/tables.py",
            "BlockTables._note_drafted",
            "sequence.ledger.drafted // self.block_size",
            "self.num_blocks_for(sequence.ledger.drafted)",
        ),
    ),
    mutant(
        "draft model",
        "the beginning of a block that may be shared counts as computed",
        (
            "engine/cache/tables.py",
            "BlockTables.settled",
            "upto if upto // size == computed // size else upto // size * size",
            "upto",
        ),
    ),
    mutant(
        "draft model",
        "two sequences have it write the block that they share",
        (
            "engine/drafting.py",
            "_feed",
            "not written.isdisjoint(places := tables.places_beside(sequence, lacking))",
            "not (places := tables.places_beside(sequence, lacking))",
        ),
    ),
    mutant(
        "draft model",
        "it writes a block that it has behind one that it lacks",
        ("engine/cache/tables.py", "BlockTables.lacking", "if known is None else known * self.block_size", ""),
    ),
    mutant(
        "draft model",
        "it guesses before it has computed all tokens",
        (
            "engine/drafting.py",
            "_ask_model",
            "feed is not None and feed.stop == grant.sequence.ledger.accepted",
            "feed is not None",
        ),
    ),
    mutant(
        "draft model",
        "it computes beyond its own context",
        (
            "engine/draft/drafts.py",
            "Drafts.promise",
            "min(self._most_for(sequence), self._draft_context - len(sequence.tokens))",
            "self._most_for(sequence)",
        ),
    ),
    mutant(
        "draft model",
        "it guesses where masks are made for known tokens",
        ("engine/draft/drafts.py", "Drafts.promise", " or sequence.request.grammar is not None", ""),
    ),
    mutant(
        "draft model",
        "its rows are looked for beside a window's blocks",
        ("engine/cache/layout.py", "Layout.group_beside", "if group.reach is Reach.FULL", "if group"),
    ),
    mutant(
        "draft model",
        "a guess is drawn with the randomness of the first",
        ("engine/model/drafter.py", "Drafter._chunk", "choose and choose.after(tuple(each.guesses))", "choose"),
    ),
    mutant(
        "draft model",
        "it reads the table of the target's first group",
        ("engine/model/drafter.py", "Drafter._own", "tables[self._table]", "tables[0]"),
    ),
    mutant(
        "draft model",
        "a guess is not computed before the next",
        ("engine/model/drafter.py", "_Guessing.take", "        self.tokens = (guess,)\n", ""),
    ),
    mutant(
        "draft model",
        "another tokenizer passes",
        ("engine/model/draft_model.py", "_compare", "if token is not None", "if False"),
    ),
    mutant(
        "draft model",
        "its time counts as the streams'",
        ("engine/pace.py", "Pace.observe", "        seconds -= guessing_seconds\n", ""),
    ),
    mutant(
        "draft model",
        "a round that does not pay is made",
        ("engine/draft/rounds.py", "share_rounds", "if tokens > best_speed * cost", "if True"),
    ),
    mutant(
        "E6",
        "blocks of drafts that fell stay with the sequence",
        ("engine/cache/tables.py", "BlockTables._release_beyond", "if count < 0", "if count < -99"),
    ),
    mutant(
        "E9",
        "the state behind drafts that fell goes on",
        ("engine/cache/slots.py", "StateSlots._pick", "if position == computed", "if position == computed + 1"),
    ),
    mutant(
        "E9",
        "a checkpoint behind drafts that fell is known",
        ("engine/cache/slots.py", "StateSlots.commit", "if position <= computed and self", "if self"),
    ),
    mutant(
        "E19",
        "drafted tokens have the log-probability of the first",
        (
            "engine/commit.py",
            "Commit._accept",
            "output.held.append((token, logprob))",
            "output.held.append((token, chosen[0].logprob))",
        ),
    ),
    mutant(
        "E20",
        "a stop within a draft ends nothing",
        (
            "engine/commit.py",
            "Commit._accept",
            "if stop is not None",
            "if stop is not None and len(accepted) == len(chosen)",
        ),
    ),
    mutant(
        "law 22",
        "a draft is verified with the randomness of the token before",
        ("engine/step.py", "Choose.after", "output_index=index", "output_index=self.output_index"),
    ),
    mutant(
        "law 22",
        "penalties do not see the drafts before",
        ("engine/step.py", "Choose.after", "(*self.outputs, *drafts)", "self.outputs"),
    ),
    mutant(
        "law 22",
        "a stop that is too early is chosen behind a draft",
        ("engine/step.py", "Choose.after", "if index < self.min_outputs", "if index < 0"),
    ),
    mutant(
        "native",
        "a row is written to the slot behind its own",
        ("engine/model/native_forward.py", "Rows._add_tables", "+ place % size for", "+ (place + 1) % size for"),
    ),
    mutant(
        "native",
        "every sequence reads through the first one's block table",
        (
            "engine/model/native_forward.py",
            "Rows._add_tables",
            "len(chunk.tokens), len(self.units) - table.first))",
            "len(chunk.tokens), -table.first))",
        ),
    ),
    mutant(
        "native",
        "a token is chosen by the logits of the position before",
        (
            "engine/model/native_forward.py",
            "Rows._add",
            "range(len(self.ids) - chunk.num_chosen, len(self.ids))",
            "range(len(self.ids) - chunk.num_chosen - 1, len(self.ids) - 1)",
        ),
    ),
    mutant(
        "native",
        "what a model adds to the weight of its norms is forgotten",
        ("engine/model/parameters.py", "Parameters.norm_weight", " + norm.offset", ""),
    ),
    mutant(
        "native",
        "fused biases stay in the order of the file",
        (
            "engine/model/parameters.py",
            "Parameters.bias",
            "bias if data.order is None else bias[list(data.order)]",
            "bias",
        ),
    ),
    mutant(
        "native",
        "a float32 matrix is multiplied with rows that were split for its neighbours",
        (
            "engine/model/parameters.py",
            "alike",
            'return [encode_as(part, "float32") for part in parts]',
            "return parts",
        ),
    ),
    mutant(
        "native",
        "windows are not kept",
        ("engine/model/straight.py", "StraightProgram._attention", "window=group.window(data.window) or 0", "window=0"),
    ),
    mutant(
        "native",
        "attention's part is added before a parallel feed-forward part reads",
        ("engine/model/straight.py", "StraightProgram._layer", "if layer.parallel:", "if False:"),
    ),
    mutant(
        "native",
        "all layers share the first one's cache",
        ("engine/model/straight.py", "StraightProgram._cache", "storage.cells[index]", "storage.cells[0]"),
    ),
    mutant(
        "native",
        "neighbours are turned by the angles of the first half",
        ("engine/model/angles.py", "_one_a_pair", "table[:, ::2] if", "table[:, :pairs] if"),
    ),
    mutant(
        "native",
        "a part of a fused buffer begins at the whole's first column",
        ("engine/model/kernels/builder.py", "Builder.view", "whole.data + column * FLOAT_BYTES", "whole.data"),
    ),
    mutant(
        "native",
        "the slowest level is taken for the fastest",
        ("engine/model/kernels/choice.py", "choose_kernels", "levels[-1]", "levels[0]"),
    ),
    mutant(
        "native",
        "modules write every position to its block's first slot",
        ("engine/model/packed.py", "KernelAttention.begin", "each.units * size + each.offsets", "each.units * size"),
    ),
    mutant(
        "native",
        "rows are split for float32 matrices too",
        (
            "engine/model/kernels/product.py",
            "_Product.__init__",
            "place.kernels.level is Level.AMX and weight.kind != Kind.F32",
            "place.kernels.level is Level.AMX",
        ),
    ),
    mutant(
        "native",
        "queries of an int8 cache are not rotated",
        (
            "engine/model/kernels/heads.inc",
            "write_queries",
            "heads.cache.type == CacheType::int8",
            "heads.cache.type == CacheType::int8 && heads.heads == 0",
        ),
    ),
    mutant(
        "native",
        "the offsets of int8 keys count for nothing",
        ("engine/model/kernels/floats.inc", "scaled", "mul(offsets, fill(sum))", "zero()"),
    ),
    mutant(
        "native",
        "a window has one position more",
        (
            "engine/model/kernels/tiles.inc",
            "first_seen",
            "position + 1 - attention.window",
            "position - attention.window",
        ),
    ),
    mutant(
        "native",
        "a window that ends near a split of the context loses it",
        ("engine/model/kernels/tiles.inc", "first_split", "return seen / kSplit;", "return (seen + kLanes) / kSplit;"),
    ),
    mutant(
        "native",
        "kernels read the step's first block table for every sequence",
        ("engine/model/kernels/tiles.inc", "tile_of", "step.units + span.table", "step.units"),
    ),
    mutant(
        "E12",
        "every layer reads through the first block table",
        (
            "engine/model/kernels/tiles.inc",
            "spans_of",
            "step.spans + int64_t{attention.cache.table} * step.num_spans",
            "step.spans",
        ),
    ),
    mutant(
        "native",
        "the last row of a batch is taken for padding",
        ("engine/model/padding.py", "Filling.begin", "else batch.num_rows", "else batch.num_rows - 1"),
    ),
    mutant(
        "native",
        "what the last product left stands in the rows of padding",
        ("engine/model/kernels/product.py", "_Product.run", "clear_behind(out, num_rows)", "pass"),
    ),
    mutant(
        "modules",
        "what an expert gave goes to another of its rows",
        ("engine/model/experts.py", "Experts.forward", ".index_copy_(0, order,", ".index_copy_(0, order.argsort(),"),
    ),
    mutant(
        "modules",
        "an expert reads rows that its router should have scaled",
        ("engine/model/experts.py", "Experts.forward", "rows * weights if self.scales_inputs else rows", "rows"),
    ),
    mutant(
        "modules",
        "a router's last rows are computed among fewer",
        ("engine/model/experts.py", "FixedRows.forward", "-len(rows) % self.num_rows", "0"),
    ),
    mutant(
        "modules",
        "a latent query forgets the part that is turned",
        ("engine/model/latent.py", "Latent.absorb", ", turned], dim=-1)", ", turned * 0], dim=-1)"),
    ),
    mutant(
        "modules",
        "the temperature grows one position late",
        ("engine/model/tempered.py", "Tempered.forward", "self._positions.now + 1", "self._positions.now"),
    ),
    mutant(
        "modules",
        "a small copy has no layer that reads another's cache",
        ("engine/model/shrink.py", "_chosen_layers", "(layer >= first_reader, *", "(False, *"),
    ),
    mutant(
        "recurrent",
        "a checkpoint is taken one position late",
        ("engine/model/kernels/recurrent.inc", "is_due", "next->count == count", "next->count + 1 == count"),
    ),
    mutant(
        "recurrent",
        "a state stays behind in the slot that it comes from",
        ("engine/model/kernels/recurrent.inc", "begin_state", "span.source != span.target", "span.source < 0"),
    ),
    mutant(
        "recurrent",
        "a sequence begins with what its slot held",
        ("engine/model/kernels/recurrent.inc", "begin_state", "  if (span.source < 0) {", "  if (span.source < -1) {"),
    ),
    mutant(
        "recurrent",
        "a convolution forgets what came before its chunk",
        ("engine/model/kernels/recurrent.inc", "Inputs", "return span.source < 0 ? nullptr", "return true ? nullptr"),
    ),
    mutant(
        "recurrent",
        "a checkpoint's place is told from the sequence's beginning",
        ("engine/model/scans.py", "make_state_step", "position - span.start", "position"),
    ),
    mutant(
        "recurrent",
        "every layer works on the first one's states",
        ("engine/model/recurrence.py", "Recurrence._array", "arrays[layer]", "arrays[min(self.storage.arrays)]"),
    ),
    mutant(
        "recurrent",
        "a mixer that gates behind its norm gates before it too",
        ("engine/model/mixers/mamba2.py", "Mamba2Mixer.__call__", "None if self._normed else gate", "gate"),
    ),
    mutant(
        "recurrent",
        "what Mamba's relatives norm stays as it is",
        ("engine/model/mixers/mamba.py", "MambaMixer.__call__", "norm(part.contiguous())", "part.contiguous()"),
    ),
    mutant(
        "recurrent",
        "mixers that are not known run as they are",
        ("engine/model/mixers/attach.py", "attach_mixers", "if layers != sorted(recurrence.calls):", "if False:"),
    ),
    mutant(
        "recurrent",
        "a period says of a small copy's layers what it says of the model's",
        (
            "engine/model/shrink_mixers.py",
            "shrink_periods",
            "layer % period == offset for layer in layers",
            "layer % period == offset for layer, _ in enumerate(layers)",
        ),
    ),
    mutant(
        "reading",
        "the beginning of a mark is not held back",
        ("server/reading/tape.py", "_begun", "any(literal.startswith(end)", "any(literal == end"),
    ),
    mutant(
        "reading",
        "what was held back is lost at the end",
        ("server/reading/answer.py", "_read_answer", "if not calls.any:", "if False:"),
    ),
    mutant(
        "reading",
        "half a call that the end cuts behind another is text",
        ("server/reading/answer.py", "_read_calls", "if calls.any and tape.ended and not tape.rest:", "if False:"),
    ),
    mutant(
        "reading",
        "half a closing mark is text",
        ("server/reading/tape.py", "Tape.close", " and not self.cut(*literals)", ""),
    ),
    mutant(
        "reading",
        "what turns out to be no call loses the mark's first character",
        ("server/reading/answer.py", "_read_calls", "tape.say_text(place + 1)", "tape.at = place + 1"),
    ),
    mutant(
        "reading",
        "what comes behind a break stays in a call's arguments",
        ("server/reading/scan.py", "Scan._behind_text", "self._place in (*_VALUES, _Place.KEY_OR_END)", "True"),
    ),
    mutant(
        "reading",
        "a tool that was not offered is called",
        ("server/reading/calls.py", "Calls.begin", "if name not in self.names or self.full", "if self.full"),
        ("server/reading/calls.py", "read_call_object", "if name not in calls.names", "if False"),
    ),
    mutant(
        "reading",
        "all choices share one reader",
        ("server/reading/readings.py", "Readings.read", "self._readers.get(delta.choice)", "self._readers.get(0)"),
        (
            "server/reading/readings.py",
            "Readings.read",
            "self.said[delta.choice] = Said()",
            "self.said.setdefault(delta.choice, Said())",
        ),
    ),
    mutant(
        "reading",
        "tokens of calls are listed with the content's",
        ("server/reading/places.py", "_Ranges.hold", "first < max(stop, start + 1) and start < last", "start < last"),
    ),
    mutant(
        "reading",
        "a call that was made ends with stop",
        ("server/render/reply.py", "finish_reason", 'calls and reason == "stop"', "False"),
    ),
    mutant(
        "reading",
        "marks that are special tokens are left out of the text",
        ("server/requests.py", "requests_of", "wanted.shown_special_ids", "frozenset()"),
    ),
    mutant(
        "reading",
        "a required call is only hoped for",
        ("server/calling.py", "shape_of", "if offer.required:", "if False:"),
    ),
    mutant(
        "reading",
        "a tool's name that spells a mark becomes that token",
        (
            "server/calling.py",
            "_each",
            "literal(format.name(function.name))",
            "spelling.spell(format.name(function.name))",
        ),
    ),
    mutant(
        "reading",
        "what an answer has to match leaves no room for calls",
        ("server/calling.py", "behind_thinking", "if offer.callable and format is not None:", "if False:"),
    ),
    mutant(
        "watchers",
        "the last of what has changed is lost",
        ("server/render/sight.py", "_changes", "    if start is not None:\n        yield start, len(after)\n", ""),
    ),
    mutant(
        "watchers",
        "a unit that is shared no longer is shown as it was",
        (
            "engine/cache/blocks.py",
            "BlockPool.release",
            "                self._show(block, Hold.ALLOCATED)\n",
            "",
        ),
        ("engine/cache/blocks.py", "BlockPool.check", "        self._check_codes(held)\n", ""),
    ),
    mutant(
        "watchers",
        "what a block holds is one position off",
        ("engine/holding.py", "unit_view", "number * tables.block_size", "number * tables.block_size + 1"),
    ),
    mutant(
        "watchers",
        "a window that moved on shifts what is kept of a table",
        ("server/render/sight.py", "_num_equal", "gone = table.first - before.first", "gone = 0"),
    ),
    mutant(
        "watchers",
        "who was away gets what changed since the look before",
        ("server/lookout.py", "Lookout.frame", "before.number", "sight.number - 1"),
    ),
    mutant(
        "watchers",
        "a sequence that is listed again counts as known",
        (
            "engine/view.py",
            "look_of",
            "tables.units_of(sequence) for sequence in listed",
            "tables.units_of(sequence) for sequence in roster",
        ),
    ),
    mutant(
        "watchers",
        "of those that ended since the look before, the last alone is told",
        (
            "server/lookout.py",
            "Lookout._body",
            "before.num_ended, sight.num_ended",
            "sight.num_ended - 1, sight.num_ended",
        ),
    ),
    mutant(
        "watchers",
        "what befalls a sequence after much else is not told",
        (
            "engine/roster.py",
            "Roster._note",
            "        self._hear(sequence, moment)\n",
            "            self._hear(sequence, moment)\n",
        ),
    ),
    mutant(
        "watchers",
        "who loses the cache to another is told to have lost nothing",
        (
            "engine/preemption.py",
            "preempt",
            "lost, before = sequence.ledger.computed, tables.pool.num_available\n    tables.preempt(sequence)\n",
            "tables.preempt(sequence)\n    lost, before = sequence.ledger.computed, tables.pool.num_available\n",
        ),
    ),
    mutant(
        "watchers",
        "what befell a sequence before anybody watched is forgotten",
        (
            "server/timelines.py",
            "Timelines.begin",
            "                self.hear(id, moment)\n",
            "                del moment\n",
        ),
    ),
    mutant(
        "watchers",
        "a sequence that waits is taken for one whose first steps were missed",
        ("server/timelines.py", "Timelines.begin", " if course.admitted_at is not None", ""),
    ),
    mutant(
        "watchers",
        "steps are noted for nobody",
        ("server/lookout.py", "Lookout._end", "        self._stop_noting()\n", ""),
    ),
    mutant(
        "logs",
        "what runs in the background has a line before it has ended",
        ("server/exchange.py", "Exchange.hold", "self._held = True", "self._held = False"),
    ),
    mutant(
        "logs",
        "what is held is never written",
        ("server/exchange.py", "Exchange.release", "            self._settle()\n", ""),
    ),
    mutant(
        "logs",
        "what an error of a request says is logged",
        ("server/logs.py", "_fields", 'foreign or getattr(record, "discreet", False)', "False"),
    ),
    mutant(
        "logs",
        "the field of a body that is wrong is logged",
        ("server/errors.py", "ApiError.name", 'self.body["code"] or', 'self.body["param"] or self.body["code"] or'),
    ),
    mutant(
        "logs",
        "a line has the model that was asked for, served or not",
        (
            "server/asking.py",
            "asking",
            "        body, loaded = await named(request, service, kind)\n",
            "        body = await read_body(request, kind, max_depth=service.settings.server.max_json_depth)\n"
            "        account.ask(model=body.model)\n"
            "        loaded = service.loaded()\n"
            "        loaded.check_name(body.model)\n",
        ),
    ),
    mutant(
        "logs",
        "kinds of tools are logged as clients call them",
        ("server/tools.py", "offer_of", 'given & HOSTED) + ["other"] * bool(given - HOSTED)', "given)"),
    ),
    mutant(
        "logs",
        "a span begins a trace of its own, whatever its client says",
        ("server/traces.py", "Traces.record", "context=self._parent(Headers(scope=scope))", "context=Context()"),
    ),
    mutant(
        "logs",
        "a span has the query",
        (
            "server/traces.py",
            "_http",
            'scope["path"][:MAX_TOLD_PATH]',
            'scope["path"] + str(scope.get("query_string"))',
        ),
    ),
    mutant(
        "logs",
        "a collector that is away is told with every batch",
        ("server/traces.py", "Watched.export", "if failing and not self._failing:", "if failing:"),
    ),
    mutant(
        "logs",
        "what is wrong with a client's trace is logged in its words",
        ("server/traces.py", "open_traces", "for name in _NOISY:", "for name in _NOISY[:3]:"),
    ),
    mutant(
        "logs",
        "a stream that was taken over keeps its counts",
        ("server/account.py", "Account.move", "self._exchange.tally, self._exchange.moved = None, True", "pass"),
    ),
    mutant(
        "resume",
        "what is said again begins an event too late",
        ("server/record.py", "Record.since", "number - self._num_forgotten :]", "number - self._num_forgotten + 1 :]"),
    ),
    mutant(
        "resume",
        "the event that arrived last is said again",
        ("server/deliver.py", "behind", "int(number) + 1", "int(number)"),
    ),
    mutant(
        "resume",
        "what was forgotten is skipped",
        (
            "server/record.py",
            "Record.since",
            "if not self._num_forgotten <= number <= self.num_events:",
            "if number > self.num_events:",
        ),
    ),
    mutant(
        "resume",
        "a stream that was left is kept for ever",
        ("server/records.py", "Records.left", "call_later(self._seconds,", "call_later(1e6 * self._seconds,"),
    ),
    mutant(
        "resume",
        "streams that were left take any number of bytes",
        ("server/records.py", "Records.grew", "if self._num_bytes > self._max_bytes:", "if False:"),
    ),
    mutant(
        "resume",
        "another key's stream is resumed",
        (
            "server/records.py",
            "Records.find",
            "(telling.endpoint, telling.owner) == (endpoint, owner)",
            "telling.endpoint is endpoint",
        ),
    ),
    mutant(
        "resume",
        "a request whose client left runs on",
        ("server/telling.py", "Telling._leave", "self._streams.park()", "pass"),
    ),
    mutant(
        "resume",
        "two clients have one stream",
        ("server/telling.py", "Telling.listening", "self._newest.cancel()", "pass"),
    ),
    mutant(
        "resume",
        "a stream that was taken over is not broken off",
        ("server/sse.py", "EventStream.__call__", "if not writer.ended:", "if False:"),
    ),
    mutant(
        "resume",
        "who follows misses what is said meanwhile",
        ("server/following.py", "Following.tell", "number += len(said)", "number = record.num_events"),
    ),
    mutant(
        "store",
        "a deleted response is still there",
        ("server/store.py", "Store._delete", "self._forget_one(id)", "pass"),
    ),
    mutant(
        "store",
        "a response that is deleted while it runs is kept at its end",
        ("server/routes/responses.py", "delete_response", "answer.forget()", "pass"),
    ),
    mutant(
        "store",
        "what came before a response is left out",
        ("server/recall.py", "_before", "if id is None:", "if id:"),
    ),
    mutant(
        "store",
        "a conversation goes on from a response that is not finished",
        ("server/recall.py", "_before", "if not responses[-1].finished:", "if False:"),
    ),
    mutant(
        "store",
        "another key's response can be read",
        ("server/store.py", "Store._get", 'id = ? AND owner = ?", id, owner)', 'id = ?", id)'),
    ),
    mutant(
        "store",
        "another key's response can be deleted",
        ("server/store.py", "Store._delete", 'id = ? AND owner = ?", id, owner)', 'id = ?", id)'),
    ),
    mutant(
        "store",
        "the response that was used last goes first",
        ("server/store.py", "Store._keep_bounds", "ORDER BY used", "ORDER BY -used"),
    ),
    mutant(
        "store",
        "a response that is not to be kept is kept",
        ("server/routes/responses.py", "_answer", 'if echo["store"]:', "if True:"),
    ),
    mutant(
        "store",
        "what the end of the server cut off runs for ever",
        ("server/store.py", "Store._end_unfinished", "WHERE NOT finished", "WHERE finished > 1"),
    ),
    mutant(
        "store",
        "a response in the background is told of before it is kept",
        ("server/routes/responses.py", "create_response", "await settled()", "pass"),
    ),
    mutant(
        "store",
        "a whole response is told before it is kept",
        ("server/deliver.py", "answered", "await settled()", "pass"),
    ),
    mutant(
        "store",
        "a stream ends before its response is kept",
        ("server/telling.py", "Telling._go_on", "await self.settled()", "pass"),
    ),
    mutant(
        "store",
        "a client that comes back hears an end that is not kept yet",
        ("server/telling.py", "Telling.tell", "if self.ended:", "if False:"),
    ),
    mutant(
        "store",
        "who follows hears an end that is not kept yet",
        ("server/following.py", "Following.tell", "await self._telling.settled()", "pass"),
    ),
    mutant(
        "store",
        "a response is cancelled before that is kept",
        ("server/routes/responses.py", "cancel_response", "await telling.settled()", "pass"),
    ),
    mutant(
        "wire",
        "a field of another endpoint is passed over",
        ("server/neighbours.py", "_asks", "value not in _IDLE and", "False and"),
    ),
    mutant(
        "grammar",
        "a part that refers to itself is found only where the answer comes to it",
        ("engine/grammar/translate.py", "is_plain", "part.keys() <= PLAIN", "bool(PLAIN)"),
    ),
    mutant(
        "grammar",
        "a call that is addressed to no function of the offer is free text in a channel",
        ("server/calling.py", "_addressed_calls", " & ~/(?s:.*)to={re.escape(FUNCTIONS)}(?s:.*)/", ""),
    ),
    mutant(
        "templates",
        "a render that takes too long goes on beside the next",
        ("engine/model/patience.py", "within", "ctypes.c_ulong(thread.ident or 0)", "ctypes.c_ulong(0)"),
    ),
    mutant(
        "top",
        "a block that a sequence keeps is forgotten at the next snapshot",
        ("server/top/units.py", "Units._tables_after", "stays + table.units", "table.units"),
    ),
    mutant(
        "top",
        "a block has one owner, whoever shares it",
        (
            "server/top/units.py",
            "Units.owners",
            "owners.setdefault(unit, []).append(sequence)",
            "owners[unit] = [sequence]",
        ),
    ),
    mutant(
        "top",
        "a change of some blocks is taken for all of them",
        ("server/top/units.py", "Units._codes_after", "if codes.whole:", "if True:"),
    ),
    mutant(
        "top",
        "a step that is known is added again",
        ("server/top/course.py", "Course.joined", " if step.number > self.last", ""),
    ),
    mutant(
        "top",
        "what befell a sequence stands behind the step that it came before",
        ("server/top/course.py", "Course.line", "happenings[0].time < step.time", "happenings[0].time < 0"),
    ),
    mutant(
        "top",
        "a lost cache is not told",
        ("server/top/happened.py", "step_told", "step.start < before.computed", "False"),
    ),
    mutant(
        "top",
        "steps scroll to where there are none",
        ("server/top/pages.py", "Steps.press", "max(end, room)", "end"),
    ),
    mutant(
        "top",
        "a page that was left goes on asking",
        ("server/top/view.py", "View._go", "self._page.close()", "pass"),
    ),
    mutant(
        "top",
        "a place of several blocks shows the free one",
        ("server/top/draw_map.py", "_rows", "min(frame.units", "max(frame.units"),
    ),
)
