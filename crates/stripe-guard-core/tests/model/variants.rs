//! Inboxes that break one rule each, and the property that must notice.

use crate::rules;

/// The rule that a variant does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    SettleWithoutFence,
    SettleWithoutState,
    SettleIsJudgedByTime,
    AckBeforeCommit,
    AnyErrorIsADuplicate,
    ACopyIsRefused,
    ACopyStartsAnew,
    ACopyGoesOnWithoutAClaim,
    ACopyRevivesADeadLetter,
    CrashLeavesProcessing,
    LostLeasesAreNotCounted,
    AttemptCountsAtClaim,
    ClaimIsNotAtomic,
    StateStaysWhileSending,
    ExhaustedHasNoDueTime,
    ExhaustedIsNeverClaimed,
    Only200IsSuccess,
    FenceStartsAnewAtReplay,
    LateIsASuccess,
    LateOverwrites,
    ReplayOfAnOpen,
    DiscardOfAProcessing,
    ReleaseWithoutFence,
    HurryOfAProcessing,
    SuspectsAreClaimedTogether,
    SettleLeavesTheLaneParked,
    CrashLeavesTheLaneParked,
    DiscardLeavesTheLaneParked,
}

pub(crate) struct Variant {
    pub(crate) name: &'static str,
    pub(crate) broken: Broken,
    pub(crate) world: &'static str,
    /// The property that this variant violates.
    pub(crate) violates: &'static str,
}

const fn variant(name: &'static str, broken: Broken, world: &'static str, violates: &'static str) -> Variant {
    Variant { name, broken, world, violates }
}

/// Named after the row of the article's defects, where it has one.
pub(crate) const VARIANTS: &[Variant] = &[
    variant("article_2_a_copy_of_a_stored_event_is_refused", Broken::ACopyIsRefused, "one event", rules::ENDS),
    variant("article_5_52_a_crash_leaves_processing_for_ever", Broken::CrashLeavesProcessing, "one event", rules::ENDS),
    variant(
        "article_6_the_acknowledgement_comes_before_the_commit",
        Broken::AckBeforeCommit,
        "one event",
        rules::ACKNOWLEDGED_IS_STORED,
    ),
    variant(
        "article_9_a_copy_of_a_retryable_goes_on_without_a_claim",
        Broken::ACopyGoesOnWithoutAClaim,
        "one event",
        rules::ONE_CLAIM,
    ),
    variant(
        "article_10_a_copy_revives_a_dead_letter",
        Broken::ACopyRevivesADeadLetter,
        "one event",
        rules::ENDED_STAYS,
    ),
    variant(
        "article_13_any_error_is_taken_for_a_duplicate",
        Broken::AnyErrorIsADuplicate,
        "one event",
        rules::ACKNOWLEDGED_IS_STORED,
    ),
    variant("article_50_two_workers_take_one", Broken::ClaimIsNotAtomic, "one event", rules::ONE_CLAIM),
    variant("article_51_the_state_stays_while_sending", Broken::StateStaysWhileSending, "one event", rules::ONE_CLAIM),
    variant("article_53_an_attempt_counts_at_its_claim", Broken::AttemptCountsAtClaim, "one event", rules::BUDGET),
    variant("article_53_lost_leases_are_not_counted", Broken::LostLeasesAreNotCounted, "poison", rules::ENDS),
    variant(
        "article_54_exhausted_rows_stay_retryable_without_a_due_time",
        Broken::ExhaustedHasNoDueTime,
        "one event",
        rules::LEGAL,
    ),
    variant(
        "article_54_55_exhausted_rows_stay_retryable_and_are_never_claimed",
        Broken::ExhaustedIsNeverClaimed,
        "one event",
        rules::ENDS,
    ),
    variant("article_57_only_200_is_success", Broken::Only200IsSuccess, "one event", rules::YES_IS_THE_END),
    variant(
        "article_72_settle_does_not_check_the_fence",
        Broken::SettleWithoutFence,
        "one event",
        rules::FENCED_MOVES_NOTHING,
    ),
    variant(
        "article_72_settle_does_not_check_the_state",
        Broken::SettleWithoutState,
        "one event",
        rules::FENCED_MOVES_NOTHING,
    ),
    variant(
        "a_settle_after_its_lease_is_dropped_though_nobody_claimed",
        Broken::SettleIsJudgedByTime,
        "one event",
        rules::ANSWER_IS_KEPT,
    ),
    variant("a_copy_starts_a_processed_delivery_anew", Broken::ACopyStartsAnew, "one event", rules::ONE_SUCCESS),
    variant("a_replay_starts_the_fence_anew", Broken::FenceStartsAnewAtReplay, "one event", rules::FENCE_GROWS),
    variant("a_late_answer_counts_as_success", Broken::LateIsASuccess, "one event", rules::SUCCESS_IS_CURRENT),
    variant("a_fenced_answer_overwrites_a_recorded_success", Broken::LateOverwrites, "one event", rules::ONE_SUCCESS),
    variant("an_open_delivery_is_replayed", Broken::ReplayOfAnOpen, "one event", rules::ONE_CLAIM),
    variant("a_processing_delivery_is_discarded", Broken::DiscardOfAProcessing, "one event", rules::ANSWER_IS_KEPT),
    variant("a_release_does_not_check_the_fence", Broken::ReleaseWithoutFence, "one event", rules::ONE_CLAIM),
    variant("a_copy_cuts_a_lease_short", Broken::HurryOfAProcessing, "one event", rules::ONE_CLAIM),
    variant("suspects_are_claimed_with_others", Broken::SuspectsAreClaimedTogether, "poison", rules::NEIGHBOUR),
    variant("the_settle_of_a_head_leaves_its_lane_parked", Broken::SettleLeavesTheLaneParked, "lane", rules::ENDS),
    variant("the_crash_of_a_head_leaves_its_lane_parked", Broken::CrashLeavesTheLaneParked, "poison lane", rules::ENDS),
    variant("the_discard_of_a_head_leaves_its_lane_parked", Broken::DiscardLeavesTheLaneParked, "lane", rules::ENDS),
];
