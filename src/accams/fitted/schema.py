"""Schemas of the parts of a model file: which fields each has in the header, of which kind.

A model file (format 2) names its parts in the header: ``"parts": {"stencils": {...}, "ids": {...}, ...}``. Each part
has fields there and tensors called ``part/name``. Rules for what a reader does not know:

- an unknown part whose fields have ``"optional": true`` is ignored, with a warning;
- any other unknown part is refused, since predictions could depend on it;
- unknown fields of a known part are ignored; a part whose ``"version"`` is newer than the reader's is unknown.
"""

from accams.settings.common import FEEDBACK
from accams.settings.kinds import FLAG, NONE, Either, Integer, Number, Words
from accams.settings.schema import FINITE, SCALE, ListOf, Mapping, Schema, Text

CODING = {"stencils": Integer(0), "coded": FLAG, "alike": FLAG}
FEATURES = Schema(penalty=SCALE, power=Number(0.0, 1.0), spread=SCALE, columns=ListOf(Mapping(), most=10_000))
SCHEMAS: dict[str, Schema] = {
    "stencils": Schema(1, ("unseen", "coded", "alike"), offset=FINITE, unseen=ListOf(Integer(0), 2), **CODING),
    "posterior": Schema(
        1, ("coded", "alike", "effect_priors", "effect_told", "interaction_variance"), noise=SCALE,
        draws=ListOf(ListOf(Integer(0), 3)), offsets=ListOf(FINITE), effect_priors=ListOf(SCALE, 2),
        effect_told=ListOf(SCALE, 2),
        interaction_variance=SCALE, **CODING
    ),
    "linear": Schema(slopes=Integer(0), given=ListOf(Integer(0), 2)),
    "user_features": FEATURES,
    "item_features": FEATURES,
    "ids": Schema(row=Words("positions", "integers", "json"), col=Words("positions", "integers", "json")),
    "values": Schema(
        1, ("range", "clip", "sigma", "zero_weight", "predicts"), predicts=FLAG, range=ListOf(FINITE, 2),
        clip=Either(Words(None, True), ListOf(FINITE, 2)), sigma=Either(NONE, SCALE), zero_weight=Either(NONE, SCALE),
    ),
    "scale": Schema(
        values=ListOf(FINITE, most=255), cuts=ListOf(FINITE, most=255), spread=SCALE,
        latents=ListOf(FINITE, most=255), mean_cuts=ListOf(FINITE, most=255), mean_spread=SCALE,
    ),
    "item_map": Schema(
        1, ("dropout",), penalty=SCALE, dropout=SCALE, users=Integer(0), sum=Either(NONE, Mapping()),
        feedback=ListOf(Either(Words(*FEEDBACK), FINITE), 4),
    ),
    "spread": Schema(shape=ListOf(Integer(1), 2)),
    "activity": Schema(),
    "interactions": Schema(sizes=Either(Integer(0), ListOf(ListOf(Integer(0), 2)))),
    "history": Schema(names=ListOf(Text(), most=100)),
    "evaluation": Schema(result=Mapping()),
    "updates": Schema(1, ("rmse",), observations=Integer(0), digest=Text(), rmse=Either(NONE, SCALE)),
    "fit": Schema(
        1, ("names",), estimator=Text(), parameters=Mapping(), training=Mapping(), names=Either(NONE, ListOf(Text(), 2))
    ),
}  # fmt: skip
OPTIONAL = {  # a reader may do without
    "user_features", "item_features", "spread", "activity", "interactions", "history", "evaluation", "updates", "fit",
}  # fmt: skip
