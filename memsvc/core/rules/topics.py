"""Topics of facts, shared by all languages."""

from memsvc.core.facts import FactTier
from memsvc.core.rules.rule import Topic

NO_PLACE = (
    r"(?:the |an? )?(?:(?:neo)?vim|emacs|java|type ?script|javascript|python|rust|golang|go|php|ruby|scala|kotlin|swift|react|vue|angular|svelte|next(?:\.js)?|django|rails|spring|node(?:\.js)?|my ?sql|postgres\w*|mongo\w*|redis"
    r"|oracle|windows|mac ?os|mac|linux|ubuntu|debian|fedora|arch|nixos|android|ios|iphone|aws|azure|gcp|docker|podman|kubernetes|k8s|helm|terraform|git|github|gitlab|bitbucket|jenkins|buildkite|bazel|nix|google|apple|microsoft"
    r"|amazon|meta|slack|teams|zoom|notion|jira|linear|asana|trello|confluence|obsidian|figma|salesforce|hubspot|shopify|stripe|excel|sheets|quickbooks|xero|sap|main|master|trunk\S*|prod\w*|staging|dev|beta|alpha|ga|agile|scrum"
    r"|kanban|waterfall|ci|cd|micro-?services|monorepo|serverless|graphql|rest|grpc|kafka|snowflake|bigquery|fear|hope|hell|heaven|limbo|denial|peace|harmony|sin|dread|port|line|row|column|page|chapter|step|phase|stage|plan|version"
    r"|tears|discovery|closing|escrow|ward|bay|icu|theatre|recess|chambers|arbitration|trial|dismiss|compel|strike)\b(?!['-])"
)
"""What people move to, live in or come from that is no place."""
NO_ALLERGEN = (
    r"(?:the |all |any |an? |his |her |their |your |early |long |slow |small |hard |bad |cheap |team |zoom |monday )?(?:\w+ing|meetings?|stand-?ups?|work|mondays?|mornings?|bullshit|bs|drama|commitment|talk|jargon|deadlines?|people|yaml|xml|json|java\w*|php|excel|spreadsheets?|paperwork|emails?"
    r"|e-?mails|nonsense|responsibility|effort|stupidity|word|change|exercise|sports?|housework|fun|authority|boredom|hype|bureaucracy|politics|lies|excuses|clich[eé]s|compliments|praise|success|money|poverty|noise|silence|rules|losing|ideas?|code|tech debt|merge conflicts|legacy \w+|calls?"
    r"|kpis|powerpoints?|boilerplate|bloat|buzzwords|admin|emojis|slides?|tickets|timesheets|ties|suits|queues|crowds|cardio|salad|honest(?:y|ly)|frankly|tbh|criticism|debt|taxes|risk|surprises|clutter|sentimentality|romance|exams?|homework|bots|ads|spam|formulare?|papierkram|bürokram|überstunden|frühaufstehen|sport|kritik|kitsch|papeleo|burocracia|madrugar|excusas|hojas de cálculo|críticas|paperasse|tableurs?|administration|critiques?|excuses|bruit|corporate \w+|small talk|voice notes?|fools|idiots|snobs|influencers|montage|meetings|besprechungen|arbeit|dummheit|stress|hektik|lügen|ausreden|bürokratie|excel-?\w+|smalltalk|unpünktlichkeit|ungerechtigkeit"
    r"|reuniones|las reuniones|los lunes|al trabajo|trabajo|la tontería|las mentiras|la gente|réunions|aux réunions|travail|au travail|lundis|bêtise|mensonges|周报|日报|表格|早起|考试|形式主义|加班费|废话|批评|会议|开会|上班|加班|周一|学习|工作|会議|月曜|仕事|残業)\b"
)

NAME = Topic("user_name", "name", 0.95, "name", "name called who am i", shape="name")
NICKNAME = Topic(
    "user_nickname",
    "nickname",
    0.92,
    "nickname",
    "nickname call called name",
    shape="name",
)
AGE = Topic("user_age", "age", 0.9, "age", "old years age")
BIRTHDAY = Topic("user_birthday", "birthday", 0.92, "birthday", "birthday born date of birth")
PREFERENCE = Topic(
    "user_preference",
    "preference",
    0.92,
    "prefer",
    "prefer favourite favorite better",
    by_head=True,
)
FAVOURITE = Topic(
    "user_favourite",
    "favourite",
    0.92,
    "favourite",
    "favourite favorite best like prefer",
)
LIKE = Topic(
    "user_like",
    "like",
    0.85,
    "like",
    "like enjoy favourite favorite",
    tier=FactTier.L2,
    many=True,
    conflicts=(("user_dislike", "dislike"),),
)
DISLIKE = Topic(
    "user_dislike",
    "dislike",
    0.85,
    "dislike",
    "dislike hate like",
    tier=FactTier.L2,
    many=True,
    conflicts=(("user_like", "like"),),
)
DIET = Topic("user_diet", "diet", 0.9, "diet", "diet eat food meat vegetarian vegan")
FOOD_RULE = Topic("user_food_rule", "food rule", 0.9, "food", "diet eat food", many=True)
ALLERGY = Topic(
    "user_allergy",
    "allergy",
    0.93,
    "allergy",
    "allergy allergic intolerant food",
    many=True,
    shape="list",
    excludes=NO_ALLERGEN,
)
HOME = Topic(
    "user_home",
    "home",
    0.92,
    "home",
    "live home city address moved",
    shape="proper",
    excludes=NO_PLACE,
)
ADDRESS = Topic(
    "user_address",
    "address",
    0.92,
    "address",
    "live home address street",
)
ORIGIN = Topic(
    "user_origin",
    "origin",
    0.88,
    "origin",
    "from origin country",
    shape="proper",
    excludes=NO_PLACE,
)
BIRTHPLACE = Topic(
    "user_birthplace",
    "birthplace",
    0.92,
    "birthplace",
    "born birthplace",
    shape="proper",
    excludes=NO_PLACE,
)
TIMEZONE = Topic(
    "user_timezone",
    "time zone",
    0.92,
    "timezone",
    "timezone time zone",
    shape="proper",
)
JOB = Topic("user_job", "job", 0.9, "job", "job work profession occupation")
EMPLOYER = Topic(
    "user_employer",
    "employer",
    0.9,
    "employer",
    "work company employer job",
    shape="proper",
)
PROJECT = Topic(
    "user_project",
    "project",
    0.8,
    "project",
    "project work working on",
    tier=FactTier.L2,
    many=True,
)
STUDIES = Topic("user_studies", "studies", 0.88, "studies", "study studies university major degree")
FAMILY = Topic("user_family", "family", 0.92, "family", "family", shape="name")
CHILDREN = Topic("user_children", "children", 0.88, "children", "children kids how many")
KIN = Topic("user_kin", "family", 0.92, "kin", "family", many=True, shape="name")
RELATIONSHIP = Topic(
    "user_relationship",
    "relationship",
    0.9,
    "relationship",
    "married single relationship status",
)
PET = Topic("user_pet", "pet", 0.92, "pet", "pet animal", many=True, shape="name")
PET_KIND = Topic("user_pet_kind", "pet", 0.88, "pet-kind", "pet animal", many=True)
CONDITION = Topic(
    "user_condition",
    "health condition",
    0.9,
    "condition",
    "health condition illness",
    many=True,
)
MEDICATION = Topic(
    "user_medication",
    "medication",
    0.9,
    "medication",
    "medication medicine take drug",
    many=True,
)
LANGUAGE = Topic(
    "user_language",
    "language",
    0.88,
    "language",
    "language speak",
    many=True,
    shape="list",
)
HOBBY = Topic(
    "user_hobby",
    "hobby",
    0.88,
    "hobby",
    "hobby free time fun",
    many=True,
    shape="list",
)
POSSESSION = Topic("user_possession", "possession", 0.85, "possession", "own drive")
GOAL = Topic("user_goal", "goal", 0.82, "goal", "goal plan want dream", many=True)
PLAN = Topic("user_plan", "plan", 0.8, "plan", "plan when going date", tier=FactTier.L2, many=True)
REMINDER = Topic(
    "user_reminder",
    "reminder",
    0.85,
    "reminder",
    "remind reminder task todo",
    tier=FactTier.L2,
    many=True,
)
TODAY = Topic(
    "today_task", "today_task", 0.80, "today-task", "today need task plan", tier=FactTier.L1
)
WEEK = Topic(
    "weekly_task", "weekly_task", 0.82, "week-task", "week need task plan", tier=FactTier.L2
)
TASK_TODAY = Topic(
    "today_task", "today_task", 0.80, "today", "today need task plan", tier=FactTier.L1, many=True
)
TASK_WEEK = Topic(
    "weekly_task", "weekly_task", 0.82, "week", "week need task plan", tier=FactTier.L2, many=True
)
CONTACT = Topic("user_contact", "contact", 0.92, "contact", "contact reach email mail phone number")
ANSWER_LANGUAGE = Topic(
    "user_instruction",
    "answer language",
    0.92,
    "answer",
    "answer reply language always",
)
ANSWER_LENGTH = Topic(
    "user_instruction", "answer length", 0.92, "length", "answer reply short long brief"
)
EMOJI = Topic("user_instruction", "emojis", 0.92, "emoji", "emojis emoji style answer")
INSTRUCTION = Topic(
    "user_instruction",
    "instruction",
    0.88,
    "instruction",
    "instruction always never style answer",
    many=True,
)
INDENTATION = Topic(
    "user_tooling",
    "indentation",
    0.9,
    "indentation",
    "indentation tabs spaces code style",
)
TOOL = Topic(
    "user_tooling",
    "tool",
    0.85,
    "tool",
    "tool editor language code program use",
    many=True,
)
EDITOR = Topic("user_tooling", "editor", 0.9, "editor", "editor ide tool use code", shape="proper")
PRONOUNS = Topic("user_pronouns", "pronouns", 0.92, "pronouns", "pronouns he she they gender")
STATEMENT = Topic("user_statement", "statement", 0.7, "statement", "", many=True)
"""A statement that no other topic is about."""
