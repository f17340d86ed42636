"""The vocabulary of `builtin:phrases`: English words with their French forms."""

from dataclasses import dataclass

MUTE = "aeiouyâàéèêîïôûùh"  # every h in this vocabulary is mute


def begins_with_vowel(french: str) -> bool:
    """Return whether the word begins with a vowel sound, which changes the word before it."""
    return french[0] in MUTE


@dataclass(frozen=True)
class Noun:
    """A noun, singular and plural in both languages, and its French gender."""

    english: tuple[str, str]
    french: tuple[str, str]
    feminine: bool


@dataclass(frozen=True)
class Adjective:
    """An adjective with its French forms.

    forms          masculine, feminine, masculine plural, feminine plural
    first          whether it stands before its noun
    before_vowel   the masculine form before a vowel, if it differs
    """

    english: str
    forms: tuple[str, str, str, str]
    first: bool = False
    before_vowel: str | None = None


@dataclass(frozen=True)
class Verb:
    """A verb in the present tense.

    english      with "I" and with "he"
    french       with je, il, nous, vous, ils
    people       whether its object may be a personal pronoun
    indefinite   whether its object may have an indefinite article
    """

    english: tuple[str, str]
    french: tuple[str, str, str, str, str]
    people: bool = True
    indefinite: bool = True


@dataclass(frozen=True)
class Pronoun:
    """A pronoun as a subject.

    person   index of the French verb form
    not_to   pronouns that cannot be the object of a sentence with this subject
    """

    english: str
    french: str
    person: int
    not_to: tuple[str, ...] = ()
    feminine: bool = False


def _nouns(text: str) -> tuple[Noun, ...]:
    entries = (line.split() for line in text.strip().splitlines())
    return tuple(Noun((a, b), (c, d), gender == "f") for a, b, c, d, gender in entries)


def _adjectives(text: str, *, first: bool = False) -> tuple[Adjective, ...]:
    entries = (line.split() for line in text.strip().splitlines())
    return tuple(Adjective(e, (m, f, ms, fs), first, *rest) for e, m, f, ms, fs, *rest in entries)


def _verb(english: str, french: str, *, people: bool = True, indefinite: bool = True) -> Verb:
    one, third = english.split(" / ")
    i, he, we, you, they = french.split()
    return Verb((one, third), (i, he, we, you, they), people, indefinite)


ADULTS = _nouns("""
man men homme hommes m
woman women femme femmes f
teacher teachers professeur professeurs m
doctor doctors médecin médecins m
neighbour neighbours voisin voisins m
student students étudiant étudiants m
nurse nurses infirmière infirmières f
actress actresses actrice actrices f
""")
CHILDREN = _nouns("""
boy boys garçon garçons m
girl girls fille filles f
child children enfant enfants m
""")
ANIMALS = _nouns("""
cat cats chat chats m
dog dogs chien chiens m
bird birds oiseau oiseaux m
mouse mice souris souris f
horse horses cheval chevaux m
""")
THINGS = _nouns("""
book books livre livres m
letter letters lettre lettres f
car cars voiture voitures f
orange oranges orange oranges f
apple apples pomme pommes f
cake cakes gâteau gâteaux m
flower flowers fleur fleurs f
key keys clé clés f
hat hats chapeau chapeaux m
picture pictures image images f
bicycle bicycles vélo vélos m
table tables table tables f
knife knives couteau couteaux m
umbrella umbrellas parapluie parapluies m
lamp lamps lampe lampes f
tool tools outil outils m
clock clocks horloge horloges f
""")
PLACES = _nouns("""
garden gardens jardin jardins m
house houses maison maisons f
church churches église églises f
park parks parc parcs m
school schools école écoles f
hotel hotels hôtel hôtels m
kitchen kitchens cuisine cuisines f
""")
COLOURS = _adjectives("""
red rouge rouge rouges rouges
yellow jaune jaune jaunes jaunes
green vert verte verts vertes
black noir noire noirs noires
white blanc blanche blancs blanches
blue bleu bleue bleus bleues
grey gris grise gris grises
""")
QUALITIES = _adjectives("""
heavy lourd lourde lourds lourdes
round rond ronde ronds rondes
expensive cher chère chers chères
broken cassé cassée cassés cassées
dirty sale sale sales sales
useful utile utile utiles utiles
""")
MOODS = _adjectives("""
happy heureux heureuse heureux heureuses
tired fatigué fatiguée fatigués fatiguées
sad triste triste tristes tristes
rich riche riche riches riches
polite poli polie polis polies
""")
SMALL, BIG, PRETTY, YOUNG, OLD, BEAUTIFUL, NEW = _adjectives(
    """
small petit petite petits petites
big grand grande grands grandes
pretty joli jolie jolis jolies
young jeune jeune jeunes jeunes
old vieux vieille vieux vieilles vieil
beautiful beau belle beaux belles bel
new nouveau nouvelle nouveaux nouvelles nouvel
""",
    first=True,
)
VERBS = (
    _verb("see / sees", "vois voit voyons voyez voient"),
    _verb("like / likes", "aime aime aimons aimez aiment", indefinite=False),
    _verb("look for / looks for", "cherche cherche cherchons cherchez cherchent"),
    _verb("find / finds", "trouve trouve trouvons trouvez trouvent"),
    _verb("watch / watches", "regarde regarde regardons regardez regardent"),
    _verb("forget / forgets", "oublie oublie oublions oubliez oublient"),
    _verb("draw / draws", "dessine dessine dessinons dessinez dessinent"),
    _verb("hide / hides", "cache cache cachons cachez cachent"),
    _verb("choose / chooses", "choisis choisit choisissons choisissez choisissent"),
    _verb("paint / paints", "peins peint peignons peignez peignent"),
    _verb("buy / buys", "achète achète achetons achetez achètent", people=False),
    _verb("want / wants", "veux veut voulons voulez veulent", people=False),
)
GIVING = (
    _verb("give / gives", "donne donne donnons donnez donnent"),
    _verb("show / shows", "montre montre montrons montrez montrent"),
)
SUBJECTS = (
    Pronoun("I", "je", 0, ("me", "us")),
    Pronoun("he", "il", 1),
    Pronoun("she", "elle", 1, feminine=True),
    Pronoun("we", "nous", 2, ("me", "us")),
    Pronoun("you", "vous", 3, ("you",)),
    Pronoun("they", "ils", 4),
)
# pronouns as direct and as indirect objects
OBJECTS = {"me": "me", "him": "le", "her": "la", "us": "nous", "you": "vous", "them": "les"}
RECEIVERS = {"me": "me", "him": "lui", "her": "lui", "us": "nous", "you": "vous", "them": "leur"}
DETERMINERS = {
    "the": ("le", "la", "les"),
    "a": ("un", "une", "des"),
    "this": ("ce", "cette", "ces"),
    "my": ("mon", "ma", "mes"),
}
SITUATIONS = {
    "in": ("dans",),
    "near": ("près", "de"),
    "behind": ("derrière",),
    "in front of": ("devant",),
}
NEGATIONS = {"not": "pas", "never": "jamais", "no longer": "plus"}
ADVERBS = {"often": "souvent", "always": "toujours", "sometimes": "parfois"}
