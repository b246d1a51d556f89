"""English: the context of statements, and the questions for facts."""

from memsvc.core.rules.english_rules import RULES
from memsvc.core.rules.forgotten import IN_ENGLISH
from memsvc.core.rules.rule import Language

# fmt: off
# A pattern is a line of data, however long.

ENGLISH = Language(
    "English",
    whole_words=True,
    rules=(*RULES, *IN_ENGLISH),
    context_excludes=r"\b(?:if|unless|whether|would|wouldn't|could|suppose|supposing|imagine|pretend|wish|wished|hypothetically|let's say"
    r"|says|saying|said|tells|told|asks|asked|claims|claimed|thinks|thought|believes|assumes|wrote|writes|lyrics|song"
    r"|poem|story|novel|translate|translation|role ?play|act as|persona|character|dream|dreamt|dreamed|used to|example|e\.g|forget)\b",
    prefix_excludes=r"\b(?:do|did|does|don't|didn't|can|should|will|might|may|what|which|who|whom|how|why|where|that|things?|stuff|like"
    r"|someone|you|he|she|they|am|was|were|be|[\w-]+'s|the \w+|one|as)\s+$",
    prefix_allowed=r"(?:^|[\s,(])(?:and|but|so|because|since|as|well|don't forget that|ok|okay|oh|hi|hello|hey|yes|yeah|yep|no|nope|nah|actually|btw|fyi|also|though"
    r"|although|still|now|currently|honestly|personally|today|yesterday|recently|thanks|please|remember|remember that|note"
    r"|note that|correction|sorry|by the way|in fact|to be honest|you know|as you know|i think|i guess|i mean|i meant|that"
    r"|wait|update|cause|plus|anyway|basically|unfortunately|luckily|sadly|sometimes|this year|i told you|i said|i mentioned"
    r"|last (?:week|month|year|spring|summer|fall|winter)|while|and that|in (?:\d{4}))[,:]?\s*$",
    value_end=r"\s(?:and (?:love|like|enjoy|hate|study|speak|play|come|drive|prefer|i|my|we|he|she|it|they|am|have|want|need|work|live|so|also|that|the|then|now|don't|would|will|can|it's|i'm|just)"
    r"|but|because|'cause|cause|cuz|coz|so (?:i|we|please|that|it|my)|which|who|since|although|though|when(?:ever)?|while|if|as (?:a|an|well|it"
    r"|you|they|i)|too|anymore|any more|any longer|these days|nowadays|right now|at the moment|by the way|btw|in fact|and not|not"
    r"|so much|a lot|very much|either|though|lol|haha|however|with my|for (?:\w+ )?(?:years?|months?|weeks?|days|now|a living)|now"
    r"|last (?:week|month|year)|years ago|again|instead|already|yet|please|thanks|and (?:\w+ )?for \w+ing|at the \w+ of)\b.*$"
    r"|\s[-–—(\[{|].*$|:\s.*$",
    empty_value=r"(?:to$|it|that|this|these|those|them|him|her|me|us|you|your|how|what|when|where|why|the way|the idea|the sound|the look|to (?:hear|see|know"
    r"|think|say|help|be)|being|hearing|seeing|knowing|having|spending|everything|anything|something|one|both|all|each|every|any|some|not"
    r"|nothing|having|doing|going|talking|chatting|every|there|here|our|their|his|its|my|I|we)\b",
    after=r"[\"'”]?[ ,]{0,3}(?:s?he|they|my \w+|(?-i:[A-Z])\w+) (?:said|says|asked|replied|wrote|told|joked|lied)\b"
    r"|[ ,.!-]{0,3}(?:just kidding|jk|j/k|not really|in (?:a|the|my) (?:dream|story|game|novel|movie))\b",
    joins=r",? and |, | or |/",
    keys={
        "mom": "mother", "mum": "mother", "dad": "father", "fiance": "partner", "fiancé": "partner", "fiancée": "partner",
        "spouse": "partner", "kid": "child", "baby": "child", "puppy": "dog", "kitten": "cat", "bunny": "rabbit",
        "bicycle": "bike", "colour": "color",
    },
    question_patterns={
        "user_name": r"\b(?:my name|who am i|what am i called|do you know who i am)\b",
        "user_nickname": r"\b(?:call me|my nickname|my name|who am i)\b",
        "user_age": r"\bhow old am i\b|\bmy age\b",
        "user_birthday": r"\bmy birthday\b|\bwhen (?:was|am) i born\b",
        "user_preference": r"\bdo i (?:generally )?prefer\b|\bmy preferences?\b",
        "user_favourite": r"\bmy favou?rites?\b|\bdo i like (?:best|most)\b",
        "user_like": r"\bdo i (like|love|enjoy)\b|\bmy (likes|favou?rites?)\b",
        "user_dislike": r"\bdo(?:n't)? i (?:not |really )?(?:like|hate|dislike|love|enjoy)\b|\bmy dislikes\b",
        "user_diet": r"\bmy diet\b|\b(?:can|do|should|may) i eat\b|\bam i (?:a |an )?(?:veg|pesc|omni)",
        "user_food_rule": r"\bmy diet\b|\b(?:can|do|should|may) i eat\b",
        "user_allergy": r"\bam i (?:allergic|intolerant)\b|\bmy allerg|\b(?:can|should|may) i eat\b|\bcan't i eat\b",
        "user_home": r"\b(?:do|am) i (?:live|living|based)\b|\bmy (?:home|city|address)\b|\bwhere i live\b",
        "user_origin": r"\b(?:am i|do i come) from\b|\bmy (?:origin|country|home country)\b",
        "user_birthplace": r"\b(?:was|am) i born\b|\bmy birthplace\b",
        "user_timezone": r"\bmy time ?zone\b|\btime ?zone am i\b",
        "user_job": r"\bdo i work as\b|\bmy (?:job|profession|occupation)\b|\bi do for (?:a living|work)\b|\bdo i do for",
        "user_employer": r"\bdo i work\b|\bmy (?:employer|company|workplace|job)\b",
        "user_project": r"\bam i working on\b|\bmy (?:current )?projects?\b",
        "user_studies": r"\b(?:do|am|did) i study|\bmy (?:studies|major|degree)\b",
        "user_family": r"\bmy (?:family|wife|husband|partner|boyfriend|girlfriend|mother|mom|mum|father|dad|boss|manager|spouse)\b",
        "user_kin": r"\bmy (?:family|daughters?|sons?|brothers?|sisters?|child(?:ren)?|kids?|siblings?|baby)\b",
        "user_children": r"\b(?:many|my) (?:kids|children|daughters|sons)\b|\bdo i have (?:any )?(?:kids|children)\b",
        "user_relationship": r"\bam i (?:married|single|engaged|divorced)\b|\bmy (?:relationship|marital) status\b",
        "user_pet": r"\bmy (?:pets?|dogs?|cats?|puppy|kitten|horse|parrot|rabbit|hamster|turtle)\b|\bdo i have (?:an? |any )?(?:pet|dog|cat)",
        "user_pet_kind": r"\bmy pets?\b|\bpets? do i have\b|\bdo i have (?:an? |any )?(?:pet|dog|cat)",
        "user_condition": r"\bmy (?:health|medical|conditions?|illness)|\bconditions? do i have\b|\bam i (?:diabetic|pregnant|ill)",
        "user_medication": r"\bmy (?:medication|medicine|meds|drugs|pills)|\b(?:medication|medicine|meds|pills|drugs) (?:do|am) i\b",
        "user_language": r"\blanguages? (?:do|can) i\b|\bdo i speak\b|\bmy languages?\b",
        "user_hobby": r"\bmy hobb(?:y|ies)\b|\b(?:in )?my (?:free|spare) time\b|\bdo i do for fun\b",
        "user_possession": r"\b(?:my|do i (?:drive|own|have)|have i got)\b.{0,12}\b(?:car|phone|laptop|bike|computer|camera|tablet|printer)\b"
        r"|\bdo i drive\b",
        "user_goal": r"\bmy goals?\b|\bdo i want to (?:learn|achieve|do|become)\b",
        "user_plan": r"\bmy (?:plans?|schedule|calendar|agenda)\b|\b(?:am|will|do) i (?:doing|do|going|go|planning|plan|have planned)\b"
        r"|\bwhen (?:do|am|will) i\b|\bwhere (?:am|will) i (?:going|go|flying|fly|travell?ing)\b",
        "user_reminder": r"\bremind(?:ers?)?\b.{0,20}\b(?:me|my|i)\b|\bmy (?:reminders?|to-?dos?|tasks?)\b",
        "today_task": r"\bdo i (?:need|have) to do today\b|\bmy (?:tasks?|to-?dos?)\b.{0,20}\btoday\b|\bdo today\b",
        "weekly_task": r"\bdo i (?:need|have) to do this week\b|\bmy (?:tasks?|to-?dos?)\b.{0,20}\bweek\b|\bdo this week\b",
        "user_contact": r"\bmy (?:e-?mail|phone|mobile|contact|number)\b|\b(?:reach|contact) me\b",
        "user_instruction": r"\b(?:my|the) (?:instructions?|rules)\b|\bshould you (?:answer|reply|write|respond|use)\b|\bdid i (?:tell|ask) you to\b",
        "user_tooling": r"\bmy (?:editor|ide|indentation|tools?|setup|stack|code style)\b|\b(?:do i|should i|should you) (?:use|code|program|indent)\b",
    },
)
