"""The vocabulary of `builtin:mood`: topics, people, and the words for each mood."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MoodWords:
    """The words for one mood.

    feelings    adjectives for a person in this mood
    qualities   adjectives for a thing that causes it
    effects     effects of a thing, in the past and as an infinitive, on {me} or on {my} something
    """

    feelings: tuple[str, ...]
    qualities: tuple[str, ...]
    effects: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Person:
    """The forms of a person as subject, object and owner."""

    subject: str
    object: str
    owner: str


def _words(feelings: str, qualities: str, effects: str) -> MoodWords:
    pairs = (line.split(" / ") for line in effects.strip().splitlines())
    return MoodWords(
        tuple(feelings.split()), tuple(qualities.split()), tuple((did, do) for did, do in pairs)
    )


MOODS = {
    "happy": _words(
        "happy glad delighted cheerful pleased thrilled overjoyed jolly",
        "delightful wonderful joyful amusing lovely cheering",
        """
made {me} smile / make {me} smile
made {me} laugh / make {me} laugh
cheered {me} up / cheer {me} up
brightened {my} day / brighten {my} day
lifted {my} spirits / lift {my} spirits
""",
    ),
    "sad": _words(
        "sad gloomy miserable unhappy heartbroken sorrowful downcast tearful",
        "dreary depressing bleak saddening dismal tragic",
        """
made {me} cry / make {me} cry
made {me} sigh / make {me} sigh
got {me} down / get {me} down
broke {my} heart / break {my} heart
weighed on {my} mind / weigh on {my} mind
""",
    ),
    "angry": _words(
        "angry furious annoyed outraged irritated enraged indignant cross",
        "infuriating annoying maddening outrageous irritating insulting",
        """
made {me} shout / make {me} shout
made {me} swear / make {me} swear
drove {me} up the wall / drive {me} up the wall
got on {my} nerves / get on {my} nerves
made {my} blood boil / make {my} blood boil
""",
    ),
    "calm": _words(
        "calm relaxed serene composed placid unruffled carefree easy-going",
        "soothing relaxing peaceful restful calming tranquil",
        """
calmed {me} down / calm {me} down
put {me} at ease / put {me} at ease
helped {me} unwind / help {me} unwind
slowed {my} pulse / slow {my} pulse
set {my} mind at rest / set {my} mind at rest
""",
    ),
}
OPPOSITE = {"happy": "sad", "sad": "happy", "angry": "calm", "calm": "angry"}

# the things of one topic occur together
TOPICS = (
    ("soup", "bread", "coffee", "dessert", "waiter", "bill"),
    ("film", "plot", "ending", "music", "first scene", "main actor"),
    ("rain", "morning fog", "wind", "evening sun", "storm", "first snow"),
    ("flight", "hotel", "beach", "bus ride", "guide", "way home"),
    ("drill", "manual", "battery", "new saw", "old hammer", "repair"),
    ("meeting", "long email", "new office", "timetable", "phone call", "report"),
    ("garden", "kitchen", "landlord", "sofa", "street", "removal"),
    ("match", "referee", "crowd", "last lap", "training", "final score"),
)
WRITER = Person("I", "me", "my")
OTHERS = tuple(
    Person(name, name, f"{name}'s")
    for name in ("my sister", "my brother", "our neighbour", "an old friend", "everyone else")
)
OPENINGS = (
    "to be honest,",
    "last Monday",
    "on Sunday",
    "this year",
    "as I said,",
    "after all these years",
    "by the way,",
    "in short,",
)
REASONS = ("about", "because of")
STRONG = ("very", "really", "truly", "extremely")
WEAK = ("a bit", "slightly", "a little", "somewhat")
# negations before a feeling or a quality, and before an effect
NOT_SO = ("not", "not at all", "not really", "hardly", "far from", "anything but", "by no means")
NEVER_DID = ("never", "hardly")
NOT_DO = ("did not", "did nothing to", "failed to")
