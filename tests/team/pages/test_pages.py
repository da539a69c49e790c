"""Every page, for everybody: who is in the project sees it, who is not does not learn that it is there."""

import pytest

from tests.support.team_pages import ADMIN_PAGES, project_pages, read_page
from tests.support.team_world import ROLES
from workbench.team.access import ProjectRole
from workbench.team.pages.jobs_pages import job_facts

NOTE = "The baseline, as we ran it last month. #may #v5e"
PAGES = ("/", "/account", "/account/quota")
READERS = [name for name, role in ROLES.items() if role >= ProjectRole.VIEWER]


@pytest.fixture(scope="module")
def clients(running, world):
    made = {name: running.client(cookie) for name, cookie in world.cookies.items()} | {"nobody": running.client()}
    yield made
    for each in made.values():
        each.close()


@pytest.mark.compile
@pytest.mark.parametrize("name", [*READERS, "root"])
def test_who_is_in_the_project_sees_all_of_its_pages(clients, world, name):
    for what, path in project_pages(world).items():
        answer = clients[name].get(path)
        assert answer.status_code == 200, (what, answer.text)
        page = read_page(answer.text)
        assert page.scripts_within == [], what
        assert len(page.of("main")) == len(page.of("h1")) == 1, what
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")


def test_others_do_not_learn_that_a_page_is_there(clients, world):
    for what, path in project_pages(world).items():
        answer = clients["sam"].get(path)
        assert answer.status_code == 404, what
        assert answer.text.count("or you may not see it") == 1
        to_sign_in = clients["nobody"].get(path)
        assert to_sign_in.status_code == 302
        assert to_sign_in.headers["Location"].startswith("/login?next=%2Fp%2Fvision")


@pytest.mark.parametrize("path", ADMIN_PAGES)
def test_pages_of_the_server_are_for_administrators(clients, path):
    assert clients["root"].get(path).status_code == 200
    assert clients["ada"].get(path).status_code == 403


@pytest.mark.parametrize("path", PAGES)
def test_everybody_has_a_first_page_and_an_account(clients, path):
    for name in (*ROLES, "sam", "root"):
        assert clients[name].get(path).status_code == 200


def test_only_what_somebody_may_do_is_offered(clients, world):
    def offered(name, what):
        return {each.rpartition("/")[2] for each in read_page(clients[name].get(project_pages(world)[what]).text).forms} - {"logout"}

    assert offered("vic", "gallery") == offered("vic", "plan") == offered("vic", "people") - {"leave"} == set()
    assert offered("ed", "plan") == {"fork", "open"}  # it is Rosa's
    assert offered("rosa", "plan") == {"fork", "open", "new", "change", "withdraw"}
    assert offered("ed", "programs") == offered("ed", "hardware") == set()
    assert offered("ada", "programs") == {"approve", "withdraw", "git", "wheel"}
    assert offered("ada", "people") == {"role", "remove", "add", "invite", "room", "plan", "end", "change", "archive"}
    assert offered("vic", "jobs") == set()
    assert offered("rosa", "jobs") == {"cancel"}


def test_the_gallery_says_how_well_each_number_is_known(clients, world):
    text = read_page(clients["vic"].get("/p/vision/").text).text
    assert "6 of 6 plans" in text
    assert "1.02 ms measured" in text  # of a run, though a compiler said 910 µs
    assert "83.9 MiB compiled" in text
    assert "26.1 µs predicted" in text
    assert "✕ does not fit Ed" in text
    assert "forked from Two axes, 4 by 2" in text
    assert "run by Rosa ; run by Ada , which failed" in text


def test_filters_are_in_the_address(clients):
    text = read_page(clients["vic"].get("/p/vision/?author=ed&fits=no").text).text
    assert "1 of 6 plans by: ed" in text
    assert "Whole everywhere" in text
    page = read_page(clients["vic"].get("/p/vision/?author=ed&fits=no").text)
    assert {"/p/vision/?author=ed", "/p/vision/?fits=no"} <= {each.get("href") for each in page.of("a")}
    ordered = clients["vic"].get("/p/vision/?sort=peak&tier=compiled").text
    assert ordered.index("Two axes, 2 by 4</a>") < ordered.index("Two axes, 4 by 2</a>") < ordered.index("Whole everywhere</a>")
    assert "Tensor parallel</a>" not in ordered  # nobody compiled it


def test_the_gallery_is_a_table_that_sorts_compares_with_a_baseline_and_has_cards(clients, world):
    base, ordered = world.things["vision"]["entries"][0], clients["vic"].get("/p/vision/?sort=name").text
    assert ordered.index("Data parallel</a>") < ordered.index("Tensor parallel</a>") < ordered.index("Whole everywhere</a>")
    assert 'aria-sort="ascending"' in ordered
    against = read_page(clients["vic"].get(f"/p/vision/?baseline={base}").text).text
    assert "baseline: Data parallel" in against
    assert "760 µs measured −25 %" in against
    assert "16.7 GiB compiled 203 ×" in against
    cards = clients["vic"].get("/p/vision/?view=cards&fits=no").text
    assert 'class="card plan"' in cards
    assert "?fits=no" in cards


def test_words_of_a_note_with_a_hash_are_tags_that_filter(clients, world):
    entry, headers = world.things["vision"]["entries"][0], {"Referer": "http://localhost/p/vision/"}
    clients["ada"].post(f"/p/vision/plans/{entry}/change", data={"name": "Data parallel", "note": NOTE}, headers=headers)
    page = read_page(clients["ada"].get("/p/vision/").text)
    assert {"/p/vision/?q=%23may", "/p/vision/?q=%23v5e"} <= {each.get("href") for each in page.of("a")}
    assert "1 of 6 plans" in read_page(clients["ada"].get("/p/vision/?q=%23may").text).text


def test_the_first_page_says_what_needs_attention_and_begins_a_plan(clients):
    page = read_page(clients["ada"].get("/").text)
    assert "Needs attention ✕ failed run of Two axes, again in Vision" in page.text
    assert any(str(each.get("href")).endswith("/?new=1#begin-head") for each in page.of("a"))
    assert "Needs attention" not in read_page(clients["vic"].get("/").text).text


def test_the_first_page_of_a_student_is_the_assignments(clients):
    text = read_page(clients["stu"].get("/").text).text
    assert "Assignments Week 3 Vision, until Saturday, 30 June 2040" in text
    assert text.count("30 June 2040") == 1, "the time left is not the date again"
    assert "Continue with Week 3" in text
    assert "My jobs" not in text
    assert "New plan" not in text


def test_a_plan_has_a_page_that_the_api_leads_to(clients, world):
    entry = world.things["vision"]["entries"][2]
    assert clients["vic"].get(f"/p/vision/?plan={entry}").headers["Location"] == f"/p/vision/plans/{entry}"
    assert clients["sam"].get(f"/p/other/plans/{entry}").status_code == 404


def test_a_thumbnail_is_a_picture_that_can_do_nothing(clients, world):
    answer = clients["vic"].get(f"/p/vision/plans/{world.things['vision']['entries'][2]}/thumbnail.svg")
    assert answer.headers["Content-Type"] == "image/svg+xml"
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    assert answer.text.startswith("<svg")


def test_ticked_plans_lead_to_one_address_that_can_be_sent_around(clients, world):
    first, second = world.things["vision"]["entries"][:2]
    assert (
        clients["vic"].get(f"/p/vision/compare?plans={first}&plans={second}").headers["Location"]
        == f"/p/vision/compare?plans={first},{second}"
    )
    alone = clients["vic"].get(f"/p/vision/compare?plans={first}")
    assert alone.status_code == 400
    assert "1 plans selected; compare takes 2 to 10." in alone.text


def test_a_comparison_shows_what_differs_and_marks_the_best_in_words(clients, world):
    paths = project_pages(world)
    text = read_page(clients["vic"].get(paths["comparison"]).text).text
    assert "Step time, measured 1.02 ms +34 %" in text
    assert "760 µs ✓ best 790 µs +3.9 %" in text
    assert "Measured step 12 % slower than predicted" in text
    assert "Program two_layer" not in text  # all are of it
    assert "Program two_layer two_layer" in read_page(clients["vic"].get(paths["whole comparison"]).text).text


def test_jobs_can_be_asked_again(clients, world):
    found = clients["vic"].get("/p/vision/jobs/live").json()
    assert found["over"] is False
    assert "step 14 of 20, 760 µs, loss 1.286" in found["html"]
    jobs = world.things["vision"]["jobs"]
    assert clients["vic"].get(f"/p/vision/jobs/{jobs['done']}/live").json()["over"] is True
    assert clients["sam"].get(f"/p/vision/jobs/{jobs['done']}/live").status_code == 404


def test_a_job_has_its_figures_with_prices(clients, world):
    text = read_page(clients["vic"].get(project_pages(world)["job that is done"]).text).text
    assert "Step time 760 µs measured 735 µs was predicted" in text
    assert "Price of 1,000 steps $0.0015 measured" in text
    assert "Shards as planned yes Equals the unsharded step yes" in text


def test_a_job_with_a_wrong_result_says_so_in_red(hostile_running, hostile_world):
    with hostile_running.client(hostile_world.cookies["vic"]) as client:
        page = client.get(project_pages(hostile_world)["job that is done"]).text
    assert '<div class="notice bad" role="alert">WRONG RESULT' in page
    assert "Equals the unsharded step no" in read_page(page).text
    job = {"spec": {}, "summary": {"is_wrong": True, "shards_agree": True}}
    assert job_facts(job) == [("Shards as planned", "yes"), ("Equals the unsharded step", "no")]
    assert job_facts({"spec": {}, "summary": {"shards_agree": True}}) == [("Shards as planned", "yes")]


def test_a_link_to_a_plan_is_read_by_anybody(clients, world):
    answer = clients["nobody"].get(f"/share/{world.things['vision']['plan_secret']}")
    assert answer.status_code == 200
    assert "&#34;format&#34;: &#34;sharding-workbench.plan&#34;" in answer.text
    assert clients["nobody"].get("/share/nosuchsecret").status_code == 404


def test_the_level_of_the_sandbox_is_said_aloud(clients):
    assert "Programs of the team: separate process" in clients["vic"].get("/").text
    status = clients["root"].get("/admin/status").text
    assert "Why there is no sandbox: there is no bubblewrap here." in status


@pytest.mark.parametrize("page", ["", "/limits", "/audit", "/status"])
def test_every_page_of_an_administrator_warns_of_programs_with_the_rights_of_the_server(clients, page):
    assert "Programs run without a sandbox" in clients["root"].get(f"/admin{page}").text


def test_an_administrator_sees_which_programs_wait_for_approval(clients, world):
    text = clients["root"].get("/admin/status").text
    assert "Programs awaiting approval" in text
    assert "/p/vision/programs" in text


def test_files_of_the_pages_are_asked_for_again_and_are_no_pages(clients):
    answer = clients["nobody"].get("/team-static/pages.css")
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-cache"
    assert clients["nobody"].get("/team-static/../page_routes.py").status_code in (403, 404)
