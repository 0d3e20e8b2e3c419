import type { Errors } from './service.ts'
import type { User, UserFields } from './users-service.ts'

/** 32 signs that nobody confuses, so that 5 random bits choose one. */
const SIGNS = 'abcdefghijkmnpqrstuvwxyz23456789'

/** 100 random bits in groups that can be read out. */
export function generatePassword(): string {
  const signs = Array.from(crypto.getRandomValues(new Uint8Array(20)), byte => SIGNS[byte % 32])
  return signs.join('').replaceAll(/.{5}(?=.)/g, '$&-')
}

export interface UserFormProps {
  /** `undefined` for a new one. */
  readonly user: User | undefined
  /** What differs from `user`. */
  readonly draft: UserFields
  readonly onEdit: (draft: UserFields) => void
  readonly errors: Errors
  /** Whether a change is on its way. What is typed meanwhile would be lost. */
  readonly isBusy: boolean
  readonly onSave: () => void
  readonly onGenerate: () => void
}

const FIELDS = [
  ['name', 'Name'],
  ['email', 'E-mail'],
  ['password', 'Password'],
] as const

/** The fields of a user, with what is wrong with each. */
export function UserForm(props: UserFormProps) {
  const { user, draft, errors, isBusy, onEdit, onSave, onGenerate } = props
  const stored = { name: user?.name ?? '', email: user?.email ?? '', password: '' }
  const hint = user === undefined ? ' (may be left empty)' : ' (left empty, it stays as it is)'
  return (
    <form
      class="stack"
      noValidate
      onSubmit={event => {
        event.preventDefault()
        onSave()
      }}
    >
      {FIELDS.map(([field, label]) => (
        <label key={field}>
          {field === 'password' ? label + hint : label}
          <input
            id={`user-${field}`}
            type={(field === 'password' ? 'password' : 'text') as 'text'}
            autocomplete={field === 'password' ? 'new-password' : 'off'}
            spellcheck={false}
            readOnly={isBusy}
            value={draft[field] ?? stored[field]}
            aria-describedby={`user-${field}-error`}
            aria-invalid={errors[field] !== undefined || undefined}
            onInput={({ currentTarget: { value } }) => {
              const { [field]: _, ...others } = draft
              onEdit(value === stored[field] ? others : { ...others, [field]: value })
            }}
          />
          <span class="bad" id={`user-${field}-error`} role="alert">
            {errors[field] && `${label} ${errors[field].join('; ')}`}
          </span>
        </label>
      ))}
      <p class="bad" role="alert">
        {errors['']}
      </p>
      <div class="fields">
        <button type="submit">{user === undefined ? 'Create the user' : 'Save'}</button>
        <button type="button" onClick={onGenerate}>
          Generate a password
        </button>
      </div>
    </form>
  )
}
