"""Irregular English forms, which no stemmer joins: verbs, nouns and comparisons of the school grammars.

A general list, in no way made from any collection of memories.
"""

from __future__ import annotations

from functools import lru_cache

_FORMS = """
arise arose arisen; awake awoke awoken; bear bore borne born; beat beaten; become became; begin began begun;
bend bent; bet betted; bid bade bidden; bind bound; bite bit bitten; bleed bled; blow blew blown; break broke broken;
breed bred; bring brought; build built; burn burnt; buy bought; catch caught; choose chose chosen; cling clung;
come came; creep crept; deal dealt; dig dug; draw drew drawn; dream dreamt; drink drank drunk; drive drove driven;
dwell dwelt; eat ate eaten; fall fell fallen; feed fed; feel felt; fight fought; find found; flee fled; fly flew flown;
forbid forbade forbidden; forget forgot forgotten; forgive forgave forgiven; freeze froze frozen; get got gotten;
give gave given; go went gone; grind ground; grow grew grown; hang hung; hear heard; hide hid hidden; hold held;
keep kept; kneel knelt; know knew known; lay laid; lead led; lean leant; leap leapt; learn learnt; leave left;
lend lent; lie lay lain; light lit; lose lost; make made; mean meant; meet met; mistake mistook mistaken; mow mown;
overcome overcame; pay paid; prove proven; ride rode ridden; ring rang rung; rise rose risen; run ran; saw sawn;
say said; see saw seen; seek sought; sell sold; send sent; sew sewn; shake shook shaken; shine shone; shoot shot;
show shown; shrink shrank shrunk; sing sang sung; sink sank sunk; sit sat; sleep slept; slide slid; smell smelt;
sow sown; speak spoke spoken; speed sped; spell spelt; spend spent; spill spilt; spin spun; spoil spoilt;
spring sprang sprung; stand stood; steal stole stolen; stick stuck; sting stung; stink stank stunk; stride strode;
strike struck; strive strove striven; swear swore sworn; sweep swept; swell swollen; swim swam swum; swing swung;
take took taken; teach taught; tear tore torn; tell told; think thought; throw threw thrown; tread trod trodden;
undergo underwent undergone; understand understood; undertake undertook undertaken; wake woke woken; wear wore worn;
weave wove woven; weep wept; win won; wind wound; withdraw withdrew withdrawn; wring wrung; write wrote written;
calf calves; child children; elf elves; foot feet; goose geese; half halves; knife knives; leaf leaves; life lives;
loaf loaves; louse lice; man men; mouse mice; ox oxen; person people; scarf scarves; shelf shelves; thief thieves;
tooth teeth; wife wives; wolf wolves; woman women; analysis analyses; appendix appendices; basis bases;
cactus cacti; crisis crises; criterion criteria; datum data; diagnosis diagnoses; focus foci; fungus fungi;
hypothesis hypotheses; index indices; matrix matrices; medium media; nucleus nuclei; phenomenon phenomena;
stimulus stimuli; thesis theses; vertex vertices; bad worse worst; far further furthest farther farthest;
good better best; little less least; many more most
"""


@lru_cache(maxsize=1)
def _table() -> dict[str, frozenset[str]]:
    forms: dict[str, frozenset[str]] = {}
    for line in _FORMS.replace("\n", " ").split(";"):
        group = frozenset(line.split())
        for word in group:
            forms[word] = forms.get(word, frozenset()) | group
    return forms


def irregular_forms(word: str) -> frozenset[str]:
    """Return the other forms of a lower-case word."""
    return _table().get(word, frozenset()) - {word}
