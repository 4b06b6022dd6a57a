"""One small codebook in each format, written from the public documentation of the format, and who has a value in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

Row = Mapping[str, Any]

REDCAP = """\
"Variable / Field Name","Form Name","Section Header","Field Type","Field Label",\
"Choices, Calculations, OR Slider Labels","Field Note","Text Validation Type OR Show Slider Number",\
"Text Validation Min","Text Validation Max",Identifier?,"Branching Logic (Show field only if...)","Required Field?"
record_id,base,,text,Record,,,,,,,,
surname,base,,text,Name,,,,,,y,,
age,base,,text,Age in years,,,integer,0,110,,,y
sex,base,,radio,Sex,"1, Male | 2, Female",,,,,,,y
pregnant,base,,yesno,Pregnant?,,,,,,,"[sex] = '2' and [age] >= 15 and [age] <= 49",
weeks,base,,text,Weeks,,,integer,1,42,,"[pregnant] = '1'",
illness,base,,checkbox,Illnesses,"1, Asthma | -1, None",,,,,,"[age] >= 18",
smoker,base,,dropdown,Smoker,"0, Never | 1, Former | 2, Current",,,,,,,
packs,base,,text,Packs a day,,,number,0,10,,"[smoker] >= 1 and [smoker] <> ''",
visit,base,,text,Visit,,,date_ymd,2010-01-01,2024-12-31,,"datediff([dob], 'today', 'y') > 3",
bmi,base,,calc,Index,[weight]/[height]^2,,,,,,,
"""

XLSFORM_SURVEY = """\
type,name,label::English (en),hint,relevant,constraint,required,parameters
start,started,,,,,,
integer,age,How old are you?,in years,,. >= 0 and . <= 110,yes,
select_one yesno,works,Do you work?,,${age} >= 15,,,
begin group,job,Your job,,selected(${works}, 'yes'),,,
integer,hours,Hours a week,,,. > 0 and . < 100,,
select_multiple ways,travel,How do you travel?,,${hours} != '',,,
end group,,,,,,,
select_one yesno or_other,home,At home?,,not(${works} = 'yes') and ${age} < 65,,,
range,mood,Mood,,,,,start=1 end=5 step=1
integer,children,Children,,count-selected(${travel}) > 1,. <= ${age},,
begin repeat,visits,,,,,,
text,place,Where?,,,,,
end repeat,,,,,,,
text,remark,Anything else?,,,,,
"""
XLSFORM_SURVEY = XLSFORM_SURVEY.replace("selected(${works}, 'yes'),", "\"selected(${works}, 'yes')\",")
XLSFORM_CHOICES = """\
list_name,name,label::English (en)
yesno,yes,Yes
yesno,no,No
ways,car,By car
ways,bus,By bus
"""

_GROUP, _QUESTION = "Main.Core.Entities.SubEntities.Group", "Main.Core.Entities.SubEntities.Question."
SURVEY_SOLUTIONS = json.dumps(
    {
        "$type": "Main.Core.Documents.QuestionnaireDocument, Main.Core",
        "Children": [
            {
                "$type": f"{_GROUP}, Main.Core",
                "Title": "People",
                "ConditionExpression": "",
                "Children": [
                    {
                        "$type": f"{_QUESTION}NumericQuestion, Main.Core",
                        "QuestionType": 4,
                        "IsInteger": True,
                        "StataExportCaption": "age",
                        "QuestionText": "How <b>old</b>?",
                        "ValidationConditions": [{"Expression": "self.InRange(0, 110)", "Message": "?"}],
                    },
                    {
                        "$type": f"{_QUESTION}SingleQuestion, Main.Core",
                        "QuestionType": 0,
                        "StataExportCaption": "marital",
                        "QuestionText": "Marital status",
                        "ConditionExpression": "age >= 15",
                        "Answers": [
                            {"AnswerText": "single", "AnswerValue": "1"},
                            {"AnswerText": "married", "AnswerValue": "2"},
                        ],
                    },
                ],
            },
            {
                "$type": f"{_GROUP}, Main.Core",
                "ConditionExpression": "marital == 2 && IsAnswered(age)",
                "Children": [
                    {
                        "QuestionType": 4,
                        "IsInteger": True,
                        "VariableName": "years",
                        "VariableLabel": "Years of marriage",
                        "ValidationConditions": [{"Expression": "years >= 0 && years < 91"}],
                    },
                    {
                        "QuestionType": 7,
                        "VariableName": "spouse",
                        "QuestionText": "Name",
                        "ConditionExpression": "years.InList(1, 2) || marital.ToString().Length > 3",
                    },
                ],
            },
            {
                "IsRoster": True,
                "Children": [{"QuestionType": 4, "IsInteger": True, "VariableName": "plot"}],
            },
        ],
    },
    indent=1,
)

DDI = """\
<?xml version="1.0" encoding="UTF-8"?>
<codeBook xmlns="ddi:codebook:2_5" version="2.5">
  <dataDscr>
    <var name="SEX" intrvl="discrete"><labl>Sex</labl>
      <sumStat type="vald">917</sumStat>
      <catgry><catValu>1</catValu><labl>Male</labl><catStat type="freq">451</catStat></catgry>
      <catgry><catValu>2</catValu><labl>Female</labl><catStat type="freq">466</catStat></catgry>
      <catgry missing="Y"><catValu>9</catValu><labl>Refused</labl></catgry>
    </var>
    <var name="INCOME" intrvl="contin" dcml="0"><labl>Income</labl>
      <valrng><range min="917" max="88123"/></valrng>
      <invalrng><item VALUE="999999"/></invalrng>
      <universe>Persons of 15 and older</universe>
      <sumStat type="max">88123</sumStat>
    </var>
    <var name="WT" wgt="wgt"><labl>Sample weight</labl></var>
  </dataDscr>
</codeBook>
"""

PUMS = """\
NAME,RT,C,1,"Record Type"
VAL,RT,C,1,"P","P","Person Record"
NAME,AGEP,N,2,"Age"
VAL,AGEP,N,2,"0","0","Under 1 year"
VAL,AGEP,N,2,"1","99","1 to 99 years (Top-coded)"
NAME,PWGTP,N,5,"Person's weight"
VAL,PWGTP,N,5,"1","9999","Integer weight"
NAME,SCHL,C,2,"Educational attainment"
VAL,SCHL,C,2,"bb","bb","N/A (less than 3 years old)"
VAL,SCHL,C,2,"01","01","No schooling completed"
VAL,SCHL,C,2,"02","02","Nursery school"
NAME,WKHP,N,2,"Usual hours worked"
VAL,WKHP,N,2,"bb","bb","N/A (less than 16 years old/did not work)"
VAL,WKHP,N,2,"1","98","1 to 98 usual hours"
VAL,WKHP,N,2,"99","99","99 or more usual hours"
NAME,SEX,C,1,"Sex"
VAL,SEX,C,1,"1","1","Male"
VAL,SEX,C,1,"2","2","Female"
"""

FRICTIONLESS = json.dumps(
    {
        "resources": [
            {
                "name": "people",
                "stats": {"rows": 917},
                "schema": {
                    "missingValues": ["", "-99"],
                    "primaryKey": "id",
                    "fields": [
                        {"name": "id", "type": "integer"},
                        {
                            "name": "age",
                            "title": "Age",
                            "type": "integer",
                            "constraints": {"minimum": 0, "maximum": 99, "required": True},
                        },
                        {
                            "name": "size",
                            "type": "string",
                            "categories": [
                                {"value": "s", "label": "small"},
                                {"value": "l", "label": "large"},
                            ],
                            "categoriesOrdered": True,
                        },
                        {
                            "name": "town",
                            "type": "string",
                            "constraints": {"enum": ["A", "B"], "minLength": 1},
                        },
                        {"name": "ill", "type": "boolean"},
                        {"name": "pay", "type": "number", "description": "per month"},
                    ],
                },
            }
        ]
    },
    indent=1,
)

SDV = json.dumps(
    {
        "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
        "primary_key": "guest",
        "columns": {
            "guest": {"sdtype": "id"},
            "mail": {"sdtype": "email", "pii": True},
            "rewards": {"sdtype": "boolean"},
            "room": {"sdtype": "categorical", "order_by": "alphabetical"},
            "rate": {"sdtype": "numerical", "computer_representation": "Float"},
            "checkin": {"sdtype": "datetime", "datetime_format": "%d %b %Y"},
        },
    },
    indent=1,
)

PLAIN = """\
variable,label,value,value label,missing,min,max,universe
age,Age in years,,,,0,99,
sex,Sex,1,male,,,,
,,2,female,,,,
,,9,refused,yes,,,
job,Occupation,1,farmer,,,,age >= 15 and sex != '9'
,,2,other,,,,
hours,Hours,,,,0,80,nobody knows
town,Town,,,,,,
"""

# For each format: its files by name, what a person fills in, and for each column whether a row must hold a value.
FORMATS: dict[str, tuple[dict[str, str], dict[str, str], dict[str, Callable[[Row], bool]]]] = {
    "redcap": (
        {"dictionary.csv": REDCAP},
        {"bmi": 'kind = "numeric"\nedges = [10, 20, 25, 30, 60]'},
        {
            "pregnant": lambda r: r["sex"] == 2 and r["age"] is not None and 15 <= r["age"] <= 49,
            "weeks": lambda r: r["pregnant"] == 1,
            "packs": lambda r: r["smoker"] in (1, 2),
        },
    ),
    "xlsform": (
        {"survey.csv": XLSFORM_SURVEY, "choices.csv": XLSFORM_CHOICES},
        {
            "children": 'kind = "integer"\nmin = 0\nmax = 20',
            "remark": 'kind = "categorical"\nvalues = ["yes", "no"]',
        },
        {
            "works": lambda r: r["age"] is not None and r["age"] >= 15,
            "hours": lambda r: r["works"] == "yes",
            "travel/car": lambda r: r["works"] == "yes" and r["hours"] not in (None, -9),
            "home": lambda r: r["works"] != "yes" and r["age"] is not None and r["age"] < 65,
        },
    ),
    "survey-solutions": (
        {"document.json": SURVEY_SOLUTIONS},
        {"spouse": 'kind = "categorical"\nvalues = ["a", "b"]\nmissing = [""]'},
        {
            "marital": lambda r: r["age"] is not None and r["age"] >= 15,
            "years": lambda r: r["marital"] == 2,
        },
    ),
    "ddi": ({"codebook.xml": DDI}, {"INCOME": 'kind = "integer"\nmin = 0\nmax = 99'}, {}),
    "pums": (
        {"pums.csv": PUMS},
        {},
        {"SCHL": lambda r: r["AGEP"] is not None and r["AGEP"] >= 3},
    ),
    "frictionless": (
        {"datapackage.json": FRICTIONLESS},
        {"pay": 'kind = "numeric"\nedges = [0, 10, 20]'},
        {},
    ),
    "sdv": (
        {"metadata.json": SDV},
        {
            "room": 'kind = "categorical"\nvalues = ["BASIC", "SUITE"]',
            "rate": 'kind = "numeric"\nedges = [0, 100, 200]',
            "checkin": 'kind = "date"\nmin = "2020-01-01"\nmax = "2020-12-31"\nwidth = "month"',
        },
        {},
    ),
    "plain": (
        {"codebook.csv": PLAIN},
        {"town": 'kind = "categorical"\nvalues = ["A", "B"]'},
        {"job": lambda r: r["age"] is not None and r["age"] >= 15 and r["sex"] != 9},
    ),
}
