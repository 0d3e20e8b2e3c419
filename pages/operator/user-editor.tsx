import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Confirm, type Question } from './confirm.tsx'
import { formatMoment, formatSpan } from './format.ts'
import { Facts } from './panel.tsx'
import { useStoredUser } from './use-stored-user.ts'
import { Conflict, type HandOver, NewPassword } from './user-answers.tsx'
import { generatePassword, UserForm } from './user-form.tsx'
import type { UsersPart } from './users.tsx'
import {
  changeUser,
  createUser,
  deleteUser,
  type StoredUser,
  type UserFields,
} from './users-service.ts'

export interface UserEditorProps extends UsersPart {
  readonly handOver: HandOver | undefined
  readonly onHandOver: (handOver: HandOver | undefined) => void
}

/** One user to correct or delete, or a new one to create. */
export function UserEditor({ handOver, onHandOver, ...part }: UserEditorProps) {
  const { item, actions, now } = part
  const [draft, setDraft] = useState<UserFields>({})
  const [generated, setGenerated] = useState<string>()
  const [question, setQuestion] = useState<Question>()
  const isEdited = Object.keys(draft).length > 0
  const { stored, problem, load, attempt, settle } = useStoredUser(part, isEdited)
  const title = useRef<HTMLHeadingElement>(null)
  const isGenerated = generated !== undefined && draft.password === generated
  const user = stored?.user

  useLayoutEffect(() => title.current?.focus(), [])

  const errors = problem?.kind === 'wrong' ? problem.errors : {}
  useLayoutEffect(() => {
    const [wrong] = Object.keys(errors)
    document.getElementById(`user-${wrong}`)?.focus()
  }, [problem])

  const save = () =>
    attempt(async () => {
      if (stored !== undefined && !isEdited) {
        actions.notify('Nothing has changed.')
        return stored
      }
      const saved = await (stored === undefined ? createUser(draft) : changeUser(stored, draft))
      if (isGenerated) onHandOver({ id: saved.user.id, password: generated })
      setDraft({})
      actions.notify(`${stored === undefined ? 'Created' : 'Saved'}: ${nameOf(saved)}.`)
      if (stored === undefined) location.replace(`#users/${saved.user.id}`)
      return saved
    })

  function askToRemovePassword(known: StoredUser): void {
    const onConfirm = () =>
      attempt(async () => {
        const saved = await changeUser(known, { password: null })
        onHandOver(undefined)
        actions.notify(`Removed the password of ${nameOf(saved)}.`)
        return saved
      })
    const text = `Remove the password of ${nameOf(known)}? Nobody can log in with it any more.`
    setQuestion({ text, action: 'Remove the password', onConfirm })
  }

  function askToDelete(known: StoredUser): void {
    const onConfirm = () =>
      attempt(async () => {
        await deleteUser(known)
        actions.notify(`Deleted: ${nameOf(known)}.`)
        location.replace('#users')
        return known
      })
    const text = `Delete ${nameOf(known)}? This cannot be undone.`
    setQuestion({ text, action: `Delete ${known.user.name}`, onConfirm })
  }

  function renderBody() {
    if (problem?.kind === 'gone') {
      const who = stored === undefined ? `There is no user ${item}` : `${nameOf(stored)} is gone`
      return <p role="alert">{`${who}. It may have been deleted.`}</p>
    }
    if (item !== 'new' && stored === undefined) {
      if (problem === undefined) return <p class="faint">Loading…</p>
      return (
        <>
          <p class="bad" role="alert">
            {errors['']}
          </p>
          <button type="button" onClick={load}>
            Try again
          </button>
        </>
      )
    }
    return (
      <>
        {problem?.kind === 'conflict' && user !== undefined && (
          <Conflict
            {...{ user, draft }}
            onSave={save}
            onDiscard={() => {
              setDraft({})
              settle()
              title.current?.focus()
            }}
          />
        )}
        <UserForm
          {...{ user, draft, errors, isGenerated, onEdit: setDraft, onSave: save }}
          onGenerate={() => {
            const password = generatePassword()
            setGenerated(password)
            setDraft({ ...draft, password })
          }}
        />
        {handOver !== undefined && handOver.id === user?.id && (
          <NewPassword
            password={handOver.password}
            notify={actions.notify}
            onCopied={() => {
              onHandOver(undefined)
              title.current?.focus()
            }}
          />
        )}
        {stored !== undefined && (
          <>
            <Facts
              id="user-facts"
              facts={[
                ['Id', `${stored.user.id}`],
                ['Created', momentOf(stored.user.created_at, now)],
                ['Updated', momentOf(stored.user.updated_at, now)],
              ]}
            />
            <div class="fields">
              <button type="button" onClick={() => askToRemovePassword(stored)}>
                Remove the password…
              </button>
              <button type="button" class="danger" onClick={() => askToDelete(stored)}>
                Delete this user…
              </button>
            </div>
          </>
        )}
      </>
    )
  }

  return (
    <section class="panel stack" id="user" aria-labelledby="user-title">
      <div class="fields">
        <h2 id="user-title" tabIndex={-1} ref={title}>
          {item === 'new' ? 'New user' : `User ${item}`}
        </h2>
        <a class="button" href="#users">
          Close
        </a>
      </div>
      {renderBody()}
      {question && <Confirm {...question} onClose={() => setQuestion(undefined)} />}
    </section>
  )
}

function nameOf({ user: { id, name, email } }: StoredUser): string {
  return `${name} (${email}, id ${id})`
}

function momentOf(at: string, now: number): string {
  const ms = Date.parse(at)
  return `${formatMoment(ms)} (${formatSpan(now - ms)} ago)`
}
